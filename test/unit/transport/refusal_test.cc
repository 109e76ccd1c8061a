// The refused packets of the reference vectors, at the receiver that they describe.
#include "conformance/json_field.h"
#include "transport_harness.h"

namespace mtl::transport::test {
namespace {

using conformance::JsonField;
using conformance::JsonFile;

/// The drop of that name among the transport's.
Drop drop_of(const std::string& name) {
  for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
    if (kDropInfo[i].layer == DropLayer::kTransport && kDropInfo[i].name == name) {
      return static_cast<Drop>(i);
    }
  }
  ADD_FAILURE() << "no drop " << name;
  return Drop::kCount;
}

void expect_effect(Harness& h, const std::string& effect) {
  if (effect == "none") {
    EXPECT_EQ(h.types(), "");
  } else if (effect == "an ack is due at once") {
    ASSERT_EQ(h.types(), "ACK");
    EXPECT_EQ(h.sent[0].ack(), kPeerPsn);
  } else if (effect == "CLOSE, reason 2") {
    ASSERT_EQ(h.types(), "CLOSE");
    EXPECT_EQ(h.sent[0].reason(), 2);
    EXPECT_EQ(h.sent[0].connection(), kPeerId);
  } else if (effect == "REJECT, reason 0") {
    ASSERT_EQ(h.types(), "REJECT");
    EXPECT_EQ(h.sent[0].reason(), 0);
    EXPECT_EQ(h.sent[0].connection(), 0u);
  } else if (effect == "REJECT, reason 4") {
    ASSERT_EQ(h.types(), "REJECT");
    EXPECT_EQ(h.sent[0].reason(), 4);
    EXPECT_EQ(h.sent[0].reject_id(), 0u);
  } else {
    ADD_FAILURE() << effect;
  }
}

// What is refused for what its operations mean is in the tests of the operations.
// Rules: T3 T5 T6 T9 T12 T15 T16 T26
TEST(Refusal, EachByItsCheckWithItsEffect) {
  auto file = JsonFile::load(MTL_TRACES "/transport-vectors.json", std::size_t{1} << 20);
  ASSERT_TRUE(file) << file.error().message;
  int checked = 0;
  for (const JsonField& v : JsonField{*file}["refused"].elements()) {
    SCOPED_TRACE(v["name"].text() + ": " + v["about"].text());
    const std::string check = v["check"].text();
    if (check == "limit" || check == "ignored") continue;
    ++checked;
    Harness h;
    h.accept();
    const auto taken = h.transport.counters().taken.get();
    h.deliver(v["packet"].bytes());
    EXPECT_EQ(h.drops(drop_of(check)), 1u);
    EXPECT_EQ(h.transport.counters().taken.get(), taken);
    EXPECT_TRUE(h.operations.came.empty());
    expect_effect(h, v["effect"].text());
  }
  EXPECT_EQ(checked, 32);
  EXPECT_FALSE(file->error());
}

}  // namespace
}  // namespace mtl::transport::test
