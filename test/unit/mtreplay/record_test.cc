// mtreplay record: each reference trace comes out of its own scenario again, byte for byte; a link
// that was live becomes a trace; and what cannot be recorded is said.

#include "tools/mtreplay/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "conformance/pcap_file.h"
#include "conformance/replay.h"
#include "conformance/trace.h"
#include "tools/mtreplay/run.h"

namespace mtl::tools {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;

const fs::path kTraces = MTL_TRACES;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Record : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("mtreplay_record_") + info->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The scenario of a trace: its JSON, changed by `change`, without what must be seen.
  template <class Change>
  fs::path scenario(const std::string& name, Change change) {
    json::object root = json::parse(read(kTraces / (name + ".json"))).get_object();
    root.erase("delivered");
    root.erase("counters");
    change(root);
    const fs::path path = folder_ / "scenario.json";
    std::ofstream(path, std::ios::trunc) << json::serialize(root);
    return path;
  }
  fs::path scenario(const std::string& name) {
    return scenario(name, [](json::object&) {});
  }

  int record(const fs::path& scenario, const fs::path& frames, const std::string& name = "made") {
    options_.scenario = scenario;
    options_.frames = frames;
    options_.output = folder_ / name;
    return record();
  }
  int record() {
    std::ostringstream out;
    std::ostringstream err;
    const int status = record_trace(options_, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }

  fs::path folder_;
  RecordOptions options_;
  std::string out_;
  std::string err_;
};

TEST_F(Record, EachReferenceTraceComesOutOfItsScenario) {
  const auto traces = conformance::find_traces(kTraces);
  ASSERT_TRUE(traces);
  for (const fs::path& path : *traces) {
    const std::string name = path.stem();
    const json::value expected = json::parse(read(path));
    options_.digest = expected.at("delivered").is_object();
    const fs::path pcap = kTraces / (name + ".pcap");
    ASSERT_EQ(record(scenario(name), pcap, name), kConforms) << name << ": " << err_;
    EXPECT_EQ(read(folder_ / (name + ".pcap")), read(pcap)) << name;
    EXPECT_EQ(json::parse(read(folder_ / (name + ".json"))), expected) << name;
    EXPECT_THAT(out_, HasSubstr(name + ".json: "));
  }
}

TEST_F(Record, WhatIsThereIsNotReplaced) {
  const fs::path path = scenario("to_itself");
  ASSERT_EQ(record(path, {}), kConforms) << err_;
  const std::string before = read(folder_ / "made.json");
  EXPECT_EQ(record(path, {}), kUnusable);
  EXPECT_THAT(err_, HasSubstr("made.json: is there already"));
  EXPECT_EQ(read(folder_ / "made.json"), before);
  fs::remove(folder_ / "made.json");
  EXPECT_EQ(record(path, {}), kUnusable);
  EXPECT_THAT(err_, HasSubstr("made.pcap: is there already"));
  EXPECT_FALSE(fs::exists(folder_ / "made.json"));
}

TEST_F(Record, ABringUpWithoutANonceIsSaid) {
  const fs::path path = scenario("peer_restart", [](json::object& root) {
    json::object& port = root["dut"].get_object()["ports"].get_array()[0].get_object();
    port["nonces"].get_array().pop_back();
    port["epochs"].get_array().pop_back();
  });
  EXPECT_EQ(record(path, kTraces / "peer_restart.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("begins bring-up 2, the trace lists 1"));
  EXPECT_FALSE(fs::exists(folder_ / "made.json"));
}

TEST_F(Record, BadInputIsNamed) {
  EXPECT_EQ(record(scenario("to_itself"), {}, "none/made"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("none/made.json: there is no folder"));
  EXPECT_EQ(record(folder_ / "nosuch.json", {}), kUnusable);
  EXPECT_THAT(err_, HasSubstr("nosuch.json: No such file"));
  EXPECT_EQ(record(scenario("loss_one"), folder_ / "nosuch.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("nosuch.pcap: cannot be read as a capture"));
  EXPECT_EQ(record(scenario("loss_one"), kTraces / "switch_forward.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("switch_forward.pcap: frame "));
  EXPECT_EQ(record(scenario("loss_one", [](json::object& root) { root.erase("stimuli"); }), {}),
            kUnusable);
  EXPECT_THAT(err_, HasSubstr("stimuli: is missing"));
}

/// A link that was live: what a trace's own capture tells of its owner.
class RecordLive : public Record {
 protected:
  int record_live(const std::string& name, const fs::path& capture) {
    options_.scenario = scenario(name, [](json::object& root) {
      for (json::value& port : root["dut"].get_object()["ports"].get_array()) {
        port.get_object()["nonces"] = json::array();
        port.get_object()["epochs"] = json::array();
      }
      root["stimuli"] = json::array();
      root["end"] = 0;
    });
    options_.live_capture = capture;
    options_.output = folder_ / "made";
    return record();
  }
  static conformance::Trace load(const fs::path& path) {
    auto trace = conformance::load_trace(path);
    EXPECT_TRUE(trace) << trace.error().message;
    return *trace;
  }
};

TEST_F(RecordLive, OwnerNoncesAndEpochsComeOutOfTheCapture) {
  for (const std::string name : {"transfer_out", "transfer_in", "loss_one"}) {
    fs::remove(folder_ / "made.json");
    fs::remove(folder_ / "made.pcap");
    ASSERT_EQ(record_live(name, kTraces / (name + ".pcap")), kConforms) << name << ": " << err_;
    const conformance::Trace made = load(folder_ / "made.json");
    EXPECT_TRUE(conformance::replay(made).empty()) << name;
    const conformance::Trace original = load(kTraces / (name + ".json"));
    ASSERT_EQ(made.ports[0].bring_ups.size(), original.ports[0].bring_ups.size());
    for (std::size_t i = 0; i < made.ports[0].bring_ups.size(); ++i) {
      EXPECT_EQ(made.ports[0].bring_ups[i].nonce, original.ports[0].bring_ups[i].nonce);
      EXPECT_EQ(made.ports[0].bring_ups[i].epoch, original.ports[0].bring_ups[i].epoch);
    }
    // The first frame of the capture, an INIT at 1 us, is now at 1 ms; all frames and packets are
    // there again.
    EXPECT_EQ(made.frames.front().at, Time{std::chrono::milliseconds(1)});
    EXPECT_EQ(made.frames.size(), original.frames.size()) << name;
    EXPECT_EQ(made.deliveries.size(), original.deliveries.size()) << name;
  }
}

TEST_F(RecordLive, WhatIsNoLiveLinkIsSaid) {
  EXPECT_EQ(record_live("loss_one", kTraces / "to_itself.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("no frame of the ports' MACs in it"));

  auto frames = conformance::read_capture(kTraces / "loss_one.pcap");
  ASSERT_TRUE(frames);
  frames->erase(frames->begin(), frames->begin() + 4);  // the INITs of both sides
  ASSERT_TRUE(conformance::write_capture(folder_ / "later.pcap", *frames));
  EXPECT_EQ(record_live("loss_one", folder_ / "later.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("begins within a session"));

  // The trace's owner disables, and enables again, in INIT: nothing of it is on the wire.
  EXPECT_EQ(record_live("disable", kTraces / "disable.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("is not on the wire"));

  options_.scenario = kTraces / "loss_one.json";
  EXPECT_EQ(record(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("must be empty"));
  EXPECT_FALSE(fs::exists(folder_ / "made.json"));
}

TEST_F(RecordLive, WhatTheDeviceSentIsWhatTheTraceHas) {
  auto frames = conformance::read_capture(kTraces / "loss_one.pcap");
  ASSERT_TRUE(frames);
  const auto init = std::find_if(frames->begin(), frames->end(), [](const auto& frame) {
    return load8(frame.bytes.data() + 11) == 0 && load8(frame.bytes.data() + 10) == 0xDD &&
           (load8(frame.bytes.data() + 14) & 0x0FU) == 3;
  });
  ASSERT_NE(init, frames->end());
  store16(init->bytes.data() + 48, 63);  // the window: it has 64
  const std::span<const std::byte> bytes(init->bytes);
  store32(init->bytes.data() + 26,
          crc32c_short(bytes.subspan(14, 12), bytes.subspan(30, 40)));  // L1
  ASSERT_TRUE(conformance::write_capture(folder_ / "junk.pcap", *frames));
  EXPECT_EQ(record_live("loss_one", folder_ / "junk.pcap"), kUnusable);
  EXPECT_THAT(err_, HasSubstr("port 0: the device sent at "));
  EXPECT_FALSE(fs::exists(folder_ / "made.json"));
}

TEST_F(RecordLive, FramesOutOfOrderAreSorted) {
  auto frames = conformance::read_capture(kTraces / "loss_one.pcap");
  ASSERT_TRUE(frames);
  const auto apart = std::adjacent_find(frames->begin() + 10, frames->end(),
                                        [](const auto& a, const auto& b) { return a.at != b.at; });
  ASSERT_NE(apart, frames->end());
  std::iter_swap(apart, apart + 1);
  ASSERT_TRUE(conformance::write_capture(folder_ / "mixed.pcap", *frames));
  ASSERT_EQ(record_live("loss_one", folder_ / "mixed.pcap"), kConforms) << err_;
  EXPECT_EQ(load(folder_ / "made.json").frames.size(), frames->size());
}

TEST_F(RecordLive, N7_PacketsOfTheNodeThatLeaveOnLayer1AreItsOwn) {
  const auto raise = [](json::object& root) {
    for (json::value& route : root["dut"].get_object()["routes"].get_array()) {
      for (json::value& tier : route.get_object()["tiers"].get_array()) {
        for (json::value& hop : tier.get_array()) hop.get_object()["raise"] = 1;
      }
    }
  };
  ASSERT_EQ(record(scenario("transfer_out", raise), kTraces / "transfer_out.pcap", "raised"),
            kConforms)
      << err_;
  options_.frames.clear();
  options_.scenario = scenario("transfer_out", [&](json::object& root) {
    raise(root);
    json::object& port = root["dut"].get_object()["ports"].get_array()[0].get_object();
    port["nonces"] = json::array();
    port["epochs"] = json::array();
    root["stimuli"] = json::array();
    root["end"] = 0;
  });
  options_.live_capture = folder_ / "raised.pcap";
  options_.output = folder_ / "made";
  ASSERT_EQ(record(), kConforms) << err_;
  EXPECT_EQ(load(folder_ / "made.json").stimuli.size(),
            load(folder_ / "raised.json").stimuli.size());
}

TEST_F(Record, ATraceThatCannotBeWrittenLeavesNothing) {
  const fs::path path = scenario("to_itself");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{500, before.rlim_max};  // enough for the capture of no frames
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const int status = record(path, {});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status, kUnusable);
  EXPECT_THAT(err_, HasSubstr("made.json: cannot be written completely"));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "scenario.json");
  }
}

}  // namespace
}  // namespace mtl::tools
