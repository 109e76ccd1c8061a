#include "control/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <iterator>
#include <random>
#include <span>

#include "base/byte_order.h"
#include "control/client.h"
#include "control/framing.h"
#include "control/passed_fds.h"
#include "control/socket_address.h"
#include "fake_daemon.h"

namespace mtl::control {
namespace {

using namespace mtlink::control;  // NOLINT: the messages
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Client connect(const FakeDaemon& daemon) {
  auto client = Client::connect(daemon.path());
  if (!client) {
    ADD_FAILURE() << client.error().message;
    std::abort();
  }
  return std::move(*client);
}

/// A connection under the client's control library: bytes as the test writes them.
class RawConnection {
 public:
  explicit RawConnection(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = *socket_address(path);
    EXPECT_EQ(0, ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  }
  int fd() const { return fd_.get(); }
  /// False when the server has closed.
  bool write(const std::string& bytes) const {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  /// Everything until the server closes; fails the test if it does not.
  std::string read_to_end() const {
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string all;
    char part[4096];
    ssize_t n = 0;
    while ((n = ::read(fd_.get(), part, sizeof part)) > 0)
      all.append(part, static_cast<std::size_t>(n));
    EXPECT_TRUE(n == 0 || errno == ECONNRESET)
        << "the server did not close: " << std::strerror(errno);
    return all;
  }
  void close() { fd_.reset(); }

 private:
  Fd fd_;
};

std::string length_prefix(std::uint32_t length) {
  std::string bytes(kLengthBytes, '\0');
  store32(reinterpret_cast<std::byte*>(bytes.data()), length);
  return bytes;
}

/// The only answer in `bytes`, which must be just that.
Response only_answer(const std::string& bytes) {
  Response response;
  if (bytes.size() < kLengthBytes || frame_length(bytes.data()) != bytes.size() - kLengthBytes ||
      !response.ParseFromString(bytes.substr(kLengthBytes)))
    ADD_FAILURE() << "not one answer, but " << bytes.size() << " bytes";
  return response;
}

bool works(Client& client) {
  Request request;
  request.mutable_get_node();
  const auto response = client.call(request);
  return response && response->has_node();
}

// ---- calls and answers

TEST(ControlServer, AnswersGetNode) {
  FakeDaemon daemon;
  daemon.on_server([&] {
    daemon.target.node.set_node(11);
    daemon.target.node.set_name("sw1");
  });
  auto client = connect(daemon);
  Request request;
  request.mutable_get_node();
  const auto response = client.call(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(11u, response->node().node());
  EXPECT_EQ("sw1", response->node().name());
}

TEST(ControlServer, CarriesAPingAndFillsInDefaults) {
  FakeDaemon daemon;
  daemon.on_server([&] {
    daemon.target.ping_result.set_outcome(PingResult::REPLY);
    daemon.target.ping_result.set_from(21);
    daemon.target.ping_result.set_round_trip_ns(84'000);
  });
  auto client = connect(daemon);
  Request request;
  request.mutable_ping()->set_node(21);
  request.mutable_ping()->set_bytes(56);
  request.mutable_ping()->set_partition(3);
  const auto response = client.call(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(PingResult::REPLY, response->ping().outcome());
  EXPECT_EQ(84'000u, response->ping().round_trip_ns());
  const auto seen = daemon.target.calls.take().ping();
  EXPECT_EQ(21u, seen.node());
  EXPECT_EQ(56u, seen.bytes());
  EXPECT_EQ(3u, seen.partition());
  EXPECT_EQ(1000u, seen.timeout_ms());  // control.proto: default 1000
}

TEST(ControlServer, AnswersATraceHopByHopAndThenTheNextCall) {
  FakeDaemon daemon;
  daemon.on_server([&] {
    for (std::uint32_t n = 1; n <= 3; ++n) {
      TraceHop hop;
      hop.set_hop(n);
      hop.set_last(n == 3);
      daemon.target.hops.push_back(hop);
    }
  });
  auto client = connect(daemon);
  Request request;
  request.mutable_trace()->set_node(21);
  auto response = client.call(request);
  for (std::uint32_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(n, response->trace().hop());
    EXPECT_EQ(n == 3, response->trace().last());
    if (n < 3) response = client.receive();
  }
  EXPECT_TRUE(works(client));
  EXPECT_EQ(16u, daemon.target.calls.take().trace().max_hops());  // control.proto: default 16
}

TEST(ControlServer, CarriesWhatChangesTheNode) {
  FakeDaemon daemon;
  auto client = connect(daemon);
  Request request;
  request.mutable_set_port()->set_port(2);
  request.mutable_set_port()->set_up(true);
  auto response = client.call(request);
  ASSERT_TRUE(response && response->has_done());
  auto seen = daemon.target.calls.take();
  EXPECT_EQ(2u, seen.set_port().port());
  EXPECT_TRUE(seen.set_port().up());

  request.mutable_set_impairment()->set_port(1);
  request.mutable_set_impairment()->mutable_impairment()->set_drop_ppm(10'000);
  response = client.call(request);
  ASSERT_TRUE(response && response->has_done());
  EXPECT_EQ(10'000u, daemon.target.calls.take().set_impairment().impairment().drop_ppm());

  request.mutable_set_rate()->mutable_rate()->set_bps(160'000'000);
  response = client.call(request);
  ASSERT_TRUE(response && response->has_done());
  EXPECT_EQ(160'000'000u, daemon.target.calls.take().set_rate().rate().bps());

  request.mutable_set_measuring()->set_on(true);
  response = client.call(request);
  ASSERT_TRUE(response && response->has_done());
  EXPECT_TRUE(daemon.target.calls.take().set_measuring().on());

  request.mutable_set_routes()->mutable_routes()->add_routes()->set_dst(21);
  response = client.call(request);
  ASSERT_TRUE(response && response->has_done());
  EXPECT_EQ(21u, daemon.target.calls.take().set_routes().routes().routes(0).dst());
}

TEST(ControlServer, AnErrorAnswerLeavesTheConnectionUsable) {
  FakeDaemon daemon;
  daemon.on_server(
      [&] { daemon.target.fail = "port 9 does not exist: the node has ports 0 to 3"; });
  auto client = connect(daemon);
  std::vector<Request> requests(7);
  requests[0].mutable_get_node();
  requests[1].mutable_ping()->set_node(1);
  requests[2].mutable_trace()->set_node(1);
  requests[3].mutable_set_port();
  requests[4].mutable_set_impairment();
  requests[5].mutable_set_routes();
  requests[6].mutable_claim_slot();
  for (const auto& request : requests) {
    const auto response = client.call(request);
    ASSERT_FALSE(response);
    EXPECT_EQ("port 9 does not exist: the node has ports 0 to 3", response.error().message);
  }
  daemon.on_server([&] { daemon.target.fail.clear(); });
  EXPECT_TRUE(works(client));
}

TEST(ControlServer, RefusesValuesOutOfRangeBeforeTheTargetSeesThem) {
  FakeDaemon daemon;
  auto client = connect(daemon);
  Request request;
  request.mutable_ping()->set_node(65535);  // N3: up to 65534
  const auto response = client.call(request);
  ASSERT_FALSE(response);
  EXPECT_EQ("ping.node is 65535, it must be from 1 to 65534", response.error().message);
  EXPECT_EQ(0u, daemon.target.calls.size());
  EXPECT_TRUE(works(client));
}

TEST(ControlServer, AnswersPipelinedRequestsInOrder) {
  FakeDaemon daemon;
  RawConnection raw(daemon.path());
  std::string bytes;
  for (std::uint32_t port = 0; port < 100; ++port) {
    Request request;
    request.mutable_set_port()->set_port(port);
    bytes += *frame(request, kMaxRequest);
  }
  ASSERT_TRUE(raw.write(bytes));
  for (std::uint32_t port = 0; port < 100; ++port)
    EXPECT_EQ(port, daemon.target.calls.take().set_port().port());
}

TEST(ControlServer, AnswersAClientThatHasClosedItsWritingSide) {
  FakeDaemon daemon;
  RawConnection raw(daemon.path());
  Request request;
  request.mutable_get_node();
  ASSERT_TRUE(raw.write(*frame(request, kMaxRequest)));
  ASSERT_EQ(0, ::shutdown(raw.fd(), SHUT_WR));
  EXPECT_TRUE(only_answer(raw.read_to_end()).has_node());
}

TEST(ControlServer, TellsOfAnAnswerThatIsTooLong) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.node.set_name(std::string(kMaxResponse, 'x')); });
  auto client = connect(daemon);
  Request request;
  request.mutable_get_node();
  const auto response = client.call(request);
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("at most 16777216 fit"));
}

// ---- slots

Fd memfd_with(const std::string& text) {
  Fd fd(::memfd_create("slot", MFD_CLOEXEC));
  EXPECT_EQ(static_cast<ssize_t>(text.size()), ::write(fd.get(), text.data(), text.size()));
  return fd;
}

void put_grant(FakeDaemon& daemon) {
  daemon.on_server([&] {
    daemon.target.grant.set_node(101);
    daemon.target.grant_fds.clear();
    daemon.target.grant_fds.push_back(memfd_with("both rings"));
    daemon.target.grant_fds.emplace_back(::eventfd(5, EFD_CLOEXEC));
  });
}

TEST(ControlServer, PassesTheDescriptorsOfASlotInOrder) {
  FakeDaemon daemon;
  put_grant(daemon);
  auto client = connect(daemon);
  ClaimSlot claim;
  claim.set_node(101);
  const auto lease = client.claim_slot(claim);
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(101u, daemon.target.calls.take().claim_slot().node());
  EXPECT_EQ(101u, lease->grant.node());
  std::string text(10, '\0');
  EXPECT_EQ(10, ::pread(lease->memory.get(), text.data(), text.size(), 0));
  EXPECT_EQ("both rings", text);
  eventfd_t value = 0;  // whatever the second descriptor is: an eventfd tells which one came
  EXPECT_EQ(0, ::eventfd_read(lease->doorbell.get(), &value));
  EXPECT_EQ(5u, value);
  EXPECT_NE(0, ::fcntl(lease->memory.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(ControlServer, ClosesItsCopiesOfPassedDescriptors) {
  FakeDaemon daemon;
  int ends[2];
  ASSERT_EQ(0, ::pipe2(ends, O_CLOEXEC));
  const Fd read_end(ends[0]);
  put_grant(daemon);
  daemon.on_server([&] { daemon.target.grant_fds[0].reset(ends[1]); });
  auto client = connect(daemon);
  auto lease = client.claim_slot({});
  ASSERT_TRUE(lease);
  lease->memory.reset();  // was the last writer, if the server closed its own
  pollfd entry{read_end.get(), POLLIN, 0};
  ASSERT_EQ(1, ::poll(&entry, 1, static_cast<int>(kPatience.count()) * 1000));
  EXPECT_NE(0, entry.revents & POLLHUP);
}

TEST(ControlServer, ReleasesASlotWhenItsConnectionEnds) {
  FakeDaemon daemon;
  put_grant(daemon);
  {
    auto client = connect(daemon);
    ASSERT_TRUE(client.claim_slot({}));
    ASSERT_TRUE(works(client));
    EXPECT_EQ(0u, daemon.target.released.size());  // held as long as the connection
  }
  EXPECT_EQ(PortId{7}, daemon.target.released.take());
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
  EXPECT_EQ(0u, daemon.target.released.size());
}

TEST(ControlServer, ReleasesASlotWhenItsConnectionEndsDuringAnotherCall) {
  FakeDaemon daemon;
  put_grant(daemon);
  {
    auto client = connect(daemon);
    ASSERT_TRUE(client.claim_slot({}));
    daemon.target.calls.take();
    daemon.on_server([&] { daemon.target.keep_answers = true; });
    Request request;
    request.mutable_ping()->set_node(1);
    EXPECT_FALSE(client.call(request, std::chrono::milliseconds(1)));  // nobody answers
    daemon.target.calls.take();
  }
  EXPECT_EQ(PortId{7}, daemon.target.released.take());
  daemon.on_server(
      [&] { daemon.target.kept_pings.front()(PingResult{}); });  // too late, does nothing
}

TEST(ControlServer, ReleasesASlotGrantedToAConnectionThatIsGone) {
  FakeDaemon daemon;
  put_grant(daemon);
  daemon.on_server([&] { daemon.target.keep_answers = true; });
  {
    auto client = connect(daemon);
    EXPECT_FALSE(client.claim_slot({}, std::chrono::milliseconds(1)));
    daemon.target.calls.take();
  }
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
  EXPECT_EQ(0u, daemon.target.released.size());
  daemon.on_server([&] { daemon.target.kept_claims.front()(daemon.target.claim()); });
  EXPECT_EQ(PortId{7}, daemon.target.released.take());
}

Fd some_memory() {
  return Fd(::memfd_create("test", MFD_CLOEXEC));
}

TEST(ControlServer, ACaptureLastsAsLongAsItsConnection) {
  FakeDaemon daemon;
  off_t size = 0;
  daemon.on_server([&] {
    daemon.target.capture_grant.set_node(5);
    daemon.target.capture_grant.set_clock_ns(77);
    daemon.target.on_capture = [&](const auto&, Fd memory) {
      struct stat status {};
      EXPECT_EQ(0, ::fstat(memory.get(), &status));
      size = status.st_size;
    };
  });
  {
    auto client = connect(daemon);
    mtlink::control::Capture call;
    call.add_ports(3);
    call.set_drops_only(true);
    const Fd memory = some_memory();
    ASSERT_EQ(0, ::ftruncate(memory.get(), 4711));
    const auto grant = client.capture(call, memory);
    ASSERT_TRUE(grant) << grant.error().message;
    EXPECT_EQ(77, grant->clock_ns());
    const auto asked = daemon.target.calls.take().capture();
    EXPECT_EQ(4711, size) << "not the client's memory";
    EXPECT_EQ(3u, asked.ports(0));
    EXPECT_TRUE(asked.drops_only());
    EXPECT_EQ(65536u, asked.snap());
    EXPECT_EQ(16384u, asked.ring_kib());
    EXPECT_EQ(0u, daemon.target.captures_ended.size());
    EXPECT_FALSE(client.gone());
  }
  EXPECT_EQ(1u, daemon.target.captures_ended.take());
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
}

TEST(ControlServer, ACaptureThatIsRefusedLeavesTheConnectionUsable) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.fail = "is being captured already"; });
  auto client = connect(daemon);
  EXPECT_EQ("is being captured already", client.capture({}, some_memory()).error().message);
  daemon.on_server([&] { daemon.target.fail.clear(); });
  EXPECT_TRUE(works(client));
  EXPECT_EQ(0u, daemon.target.captures_ended.size());
}

// Who gives up before the workers have answered, as one of them hangs, leaves nothing behind.
TEST(ControlServer, ACaptureThatHasNotBegunEndsWithItsConnection) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.keep_answers = true; });
  {
    auto client = connect(daemon);
    EXPECT_FALSE(client.capture({}, some_memory(), std::chrono::milliseconds(1)));
    daemon.target.calls.take();
  }
  EXPECT_EQ(1u, daemon.target.captures_ended.take());
  daemon.on_server([&] { daemon.target.kept_captures.front()(mtlink::control::CaptureGrant{}); });
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
  EXPECT_EQ(0u, daemon.target.captures_ended.size());
}

TEST(ControlServer, CloseEndsACapture) {
  FakeDaemon daemon;
  auto client = connect(daemon);
  ASSERT_TRUE(client.capture({}, some_memory()));
  daemon.on_server([&] { daemon.server().close(); });
  EXPECT_EQ(1u, daemon.target.captures_ended.take());
  EXPECT_TRUE(client.gone());
}

// A capture comes with its memory, and no other request with anything.
TEST(ControlServer, DescriptorsAreCounted) {
  FakeDaemon daemon;
  const auto error = [&](const Request& request, std::size_t count) {
    RawConnection raw(daemon.path());
    std::vector<Fd> fds;
    for (std::size_t i = 0; i < count; ++i) fds.push_back(some_memory());
    const auto bytes = frame(request, kMaxRequest);
    EXPECT_EQ(static_cast<ssize_t>(bytes->size()), send_with_fds(raw.fd(), *bytes, fds));
    EXPECT_EQ(0, ::shutdown(raw.fd(), SHUT_WR));
    return only_answer(raw.read_to_end()).error();
  };
  Request capture;
  capture.mutable_capture();
  Request node;
  node.mutable_get_node();
  EXPECT_EQ("", error(node, 0));
  EXPECT_THAT(error(capture, 0), HasSubstr("the request came with 0 descriptors instead of 1"));
  EXPECT_THAT(error(capture, 2), HasSubstr("the request came with 2 descriptors instead of 1"));
  EXPECT_THAT(error(node, 1), HasSubstr("the request came with 1 descriptors instead of 0"));
  EXPECT_EQ(0u, daemon.target.calls.size());
}

// Descriptors that come byte by byte fill no table, and none stays open.
TEST(ControlServer, DescriptorsThatNobodyWantsAreClosed) {
  FakeDaemon daemon;
  const auto open_fds = [] {
    const std::filesystem::directory_iterator fds("/proc/self/fd");
    return std::distance(begin(fds), end(fds));
  };
  const auto before = open_fds();
  {
    RawConnection raw(daemon.path());
    Request request;
    request.mutable_get_node();
    const std::string bytes = *frame(request, kMaxRequest);
    ASSERT_GT(bytes.size(), 5u);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::vector<Fd> fds;
      fds.push_back(some_memory());
      ASSERT_EQ(1, send_with_fds(raw.fd(), std::span<const char>(bytes).subspan(i, 1), fds));
    }
    ASSERT_EQ(0, ::shutdown(raw.fd(), SHUT_WR));
    EXPECT_THAT(only_answer(raw.read_to_end()).error(),
                HasSubstr("the request came with 3 descriptors instead of 0"));
  }
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
  EXPECT_EQ(open_fds(), before);
}

// A slot that is no more: its holder hears of it, unless he holds another one.
TEST(ControlServer, EndsTheConnectionThatHeldASlotThatIsNoMore) {
  FakeDaemon daemon;
  put_grant(daemon);
  auto other = connect(daemon);
  ASSERT_TRUE(works(other));
  auto client = connect(daemon);
  ASSERT_TRUE(client.claim_slot({}));
  daemon.on_server([&] { daemon.server().end_slot(PortId{8}); });
  EXPECT_EQ(0u, daemon.target.released.size());
  daemon.on_server([&] { daemon.target.slot = PortId{8}; });
  put_grant(daemon);
  ASSERT_TRUE(client.claim_slot({}));
  daemon.on_server([&] { daemon.server().end_slot(PortId{7}); });
  EXPECT_EQ(PortId{7}, daemon.target.released.take());
  EXPECT_FALSE(client.gone()) << "it holds slot 8 still";
  daemon.on_server([&] { daemon.server().end_slot(PortId{8}); });
  EXPECT_EQ(PortId{8}, daemon.target.released.take());
  EXPECT_TRUE(client.gone());
  EXPECT_FALSE(other.gone());
  EXPECT_TRUE(works(other));
  EXPECT_EQ(0u, daemon.target.released.size());
}

TEST(ControlServer, CloseReleasesSlotsEndsConnectionsAndRemovesTheSocket) {
  FakeDaemon daemon;
  put_grant(daemon);
  auto client = connect(daemon);
  ASSERT_TRUE(client.claim_slot({}));
  EXPECT_FALSE(client.gone());
  daemon.on_server([&] { daemon.server().close(); });
  EXPECT_EQ(PortId{7}, daemon.target.released.take());
  EXPECT_TRUE(client.gone());
  EXPECT_FALSE(std::filesystem::exists(daemon.path()));
  EXPECT_FALSE(works(client));
}

TEST(ControlServer, IgnoresASecondAnswer) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.keep_answers = true; });
  RawConnection raw(daemon.path());
  Request request;
  request.mutable_ping()->set_node(1);
  ASSERT_TRUE(raw.write(*frame(request, kMaxRequest)));
  daemon.target.calls.take();
  daemon.on_server([&] {
    for (int i = 0; i < 2; ++i) daemon.target.kept_pings.front()(PingResult{});
    daemon.server().close();
  });
  EXPECT_TRUE(only_answer(raw.read_to_end()).has_ping());
}

// ---- what does harm elsewhere

TEST(ControlServer, AnswersAHugeLengthWithAnErrorAndCloses) {
  FakeDaemon daemon;
  auto other = connect(daemon);
  RawConnection raw(daemon.path());
  ASSERT_TRUE(raw.write(length_prefix(kMaxRequest + 1)));
  EXPECT_THAT(only_answer(raw.read_to_end()).error(), HasSubstr("1048577 bytes was announced"));
  EXPECT_TRUE(works(other));
}

TEST(ControlServer, TakesTheLongestRequest) {
  FakeDaemon daemon;
  auto client = connect(daemon);
  Request request;
  auto* name = request.mutable_claim_slot()->mutable_name();
  name->resize(kMaxRequest, 'x');
  while (request.ByteSizeLong() > kMaxRequest) name->pop_back();
  ASSERT_EQ(kMaxRequest, request.ByteSizeLong());
  EXPECT_FALSE(client.call(request) && false);
  EXPECT_EQ(*name, daemon.target.calls.take().claim_slot().name());
}

TEST(ControlServer, AnswersWhatIsNoRequestWithAnErrorAndCloses) {
  FakeDaemon daemon;
  auto other = connect(daemon);
  RawConnection raw(daemon.path());
  ASSERT_TRUE(raw.write(length_prefix(4) + "\xff\xff\xff\xff"));
  EXPECT_THAT(only_answer(raw.read_to_end()).error(), HasSubstr("not a control.Request"));
  EXPECT_TRUE(works(other));
}

TEST(ControlServer, AnswersAnEmptyRequestWithAnErrorAndGoesOn) {
  FakeDaemon daemon;
  auto client = connect(daemon);
  const auto response = client.call(Request{});
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("no call"));
  EXPECT_TRUE(works(client));
}

TEST(ControlServer, ForgetsAConnectionThatEndsAmidARequest) {
  FakeDaemon daemon;
  auto other = connect(daemon);
  RawConnection raw(daemon.path());
  ASSERT_TRUE(raw.write(length_prefix(1000) + "half"));
  raw.close();
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 1; }));
  EXPECT_TRUE(works(other));
}

TEST(ControlServer, ClosesAConnectionThatDoesNotCompleteARequest) {
  FakeDaemon daemon({.message_time = std::chrono::milliseconds(20)});
  RawConnection in_length(daemon.path());
  RawConnection in_body(daemon.path());
  ASSERT_TRUE(in_length.write("\x01"));
  ASSERT_TRUE(in_body.write(length_prefix(1000) + "half"));
  EXPECT_EQ("", in_length.read_to_end());
  EXPECT_EQ("", in_body.read_to_end());
}

TEST(ControlServer, ClosesAnIdleConnectionButNotOneWithASlot) {
  FakeDaemon daemon({.idle_time = std::chrono::milliseconds(20)});
  put_grant(daemon);
  auto holder = connect(daemon);
  ASSERT_TRUE(holder.claim_slot({}));
  RawConnection idle(daemon.path());  // connected after the claim: its idle time ends later
  EXPECT_EQ("", idle.read_to_end());
  EXPECT_TRUE(works(holder));
}

TEST(ControlServer, ThousandsOfRandomMessagesHarmNobody) {
  FakeDaemon daemon;
  auto other = connect(daemon);
  std::mt19937 random(20260101);  // the seed is part of the test
  std::vector<Request> seeds(8);
  seeds[0].mutable_get_node();
  seeds[1].mutable_ping()->set_node(5);
  seeds[2].mutable_trace()->set_node(5);
  seeds[3].mutable_set_port()->set_port(1);
  seeds[4].mutable_set_impairment()->mutable_impairment()->set_drop_ppm(3);
  seeds[5].mutable_set_routes()->mutable_routes()->add_routes()->add_tiers()->add_hops()->set_port(
      1);
  seeds[6].mutable_claim_slot()->set_name("slot");
  seeds[7].mutable_watch()->set_interval_ms(50);
  for (int connection = 0; connection < 500; ++connection) {
    RawConnection raw(daemon.path());
    for (int message = 0; message < 10; ++message) {
      std::string body = seeds[random() % seeds.size()].SerializeAsString();
      if (random() % 4 == 0) body.resize(random() % 64);
      for (auto& byte : body)
        if (random() % 4 == 0) byte = static_cast<char>(random());
      // One in eight announces another length than it has.
      const auto length = random() % 8 == 0 ? random() % 64 : body.size();
      if (!raw.write(length_prefix(static_cast<std::uint32_t>(length)) + body)) break;
    }
    if (connection % 50 == 0) {
      EXPECT_TRUE(works(other));
    }
  }
  EXPECT_TRUE(works(other));
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 1; }));
}

TEST(ControlServer, RefusesMoreConnectionsThanTheLimit) {
  FakeDaemon daemon({.connections = 2});
  auto first = connect(daemon);
  ASSERT_TRUE(works(first));
  {
    auto second = connect(daemon);
    ASSERT_TRUE(works(second));
    auto third = connect(daemon);
    Request request;
    request.mutable_get_node();
    const auto refused = third.call(request);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("2 connections to mtswitchd are open"));
    EXPECT_TRUE(works(first));
  }
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 1; }));
  auto again = connect(daemon);
  EXPECT_TRUE(works(again));
}

TEST(ControlServer, RefusesOtherUsersEvenIfTheSocketsModeWasWidened) {
  if (::geteuid() != 0) {
    std::puts("only root can become another user: nothing tested");
    return;
  }
  FakeDaemon daemon;
  ASSERT_EQ(0, ::chmod(daemon.directory().path().c_str(), 0755));
  ASSERT_EQ(0, ::chmod(daemon.path().c_str(), 0666));
  const auto address = *socket_address(daemon.path());
  int ends[2];
  ASSERT_EQ(0, ::pipe(ends));
  const pid_t child = ::fork();
  if (child == 0) {  // plain system calls only: the other threads are gone
    char answer[512];
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::setuid(65534) != 0 ||
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ::_exit(1);
    ssize_t n = 0;
    while ((n = ::read(fd, answer, sizeof answer)) > 0)
      if (::write(ends[1], answer, static_cast<std::size_t>(n)) != n) ::_exit(2);
    ::_exit(0);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  ASSERT_EQ(0, status);
  std::string answer(512, '\0');
  const ssize_t n = ::read(ends[0], answer.data(), answer.size());
  ::close(ends[0]);
  ASSERT_GT(n, 0);
  answer.resize(static_cast<std::size_t>(n));
  EXPECT_THAT(only_answer(answer).error(), HasSubstr("only the user of mtswitchd and root"));
}

// ---- watch

TEST(ControlServer, AWatchAnswersUntilTheConnectionEnds) {
  FakeDaemon daemon;
  daemon.on_server([&] {
    daemon.target.before_node = [](NodeState& node) { node.set_uptime_ns(node.uptime_ns() + 1); };
  });
  {
    auto client = connect(daemon);
    Request request;
    request.mutable_watch()->set_interval_ms(50);
    auto response = client.call(request);
    for (std::uint64_t reading = 1; reading <= 3; ++reading) {
      ASSERT_TRUE(response) << response.error().message;
      EXPECT_EQ(reading, response->node().uptime_ns());
      response = client.receive();
    }
  }
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
}

TEST(ControlServer, AWatchEndsWithTheNodesError) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.fail = "the node is stopping"; });
  auto client = connect(daemon);
  Request request;
  request.mutable_watch()->set_interval_ms(50);
  const auto response = client.call(request);
  ASSERT_FALSE(response);
  EXPECT_EQ("the node is stopping", response.error().message);
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
}

/// A node whose reading is longer than a socket takes at once.
constexpr std::size_t kLongReading = std::size_t{4} << 20;

TEST(ControlServer, ASlowReaderOfAWatchMakesNothingPileUp) {
  FakeDaemon daemon;
  daemon.on_server([&] { daemon.target.node.set_name(std::string(kLongReading, 'x')); });
  Request request;
  request.mutable_watch()->set_interval_ms(50);
  RawConnection slow(daemon.path());
  ASSERT_TRUE(slow.write(*frame(request, kMaxRequest)));
  ASSERT_TRUE(daemon.eventually([&] { return daemon.server().queued_bytes() > 0; }));
  const auto queued = daemon.on_server([&] { return daemon.server().queued_bytes(); });
  const auto asked = daemon.on_server([&] { return daemon.target.node_calls; });
  EXPECT_EQ(1u, asked);
  // A reader who keeps up, with the same interval, tells that the slow one's ticks have passed.
  daemon.on_server([&] { daemon.target.node.set_name("short"); });
  auto quick = connect(daemon);
  ASSERT_TRUE(quick.call(request));
  for (int reading = 0; reading < 5; ++reading) ASSERT_TRUE(quick.receive());
  EXPECT_EQ(queued, daemon.on_server([&] { return daemon.server().queued_bytes(); }));
  EXPECT_LE(queued, kLongReading + 1024);
}

TEST(ControlServer, DropsAReaderThatTakesNothing) {
  FakeDaemon daemon({.write_time = std::chrono::milliseconds(20)});
  daemon.on_server([&] { daemon.target.node.set_name(std::string(kLongReading, 'x')); });
  RawConnection slow(daemon.path());
  Request request;
  request.mutable_get_node();
  ASSERT_TRUE(slow.write(*frame(request, kMaxRequest)));
  ASSERT_TRUE(daemon.eventually([&] { return daemon.target.node_calls == 1; }));
  EXPECT_TRUE(daemon.eventually([&] { return daemon.server().connections() == 0; }));
}

}  // namespace
}  // namespace mtl::control
