// The control connections of memif over real sockets: two hubs, and peers that play foul.

#include "phy/memif/memif_hub.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iterator>

#include "../frames.h"
#include "memif_pair.h"

namespace mtl::phy {
namespace {

using test::must;
using test::OutFrame;
using test::take;
using namespace std::chrono_literals;

sockaddr_un address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.data(), path.size());
  return out;
}

Result<Fd> listen_at(const std::string& path) {
  ::unlink(path.c_str());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un name = address(path);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(fd.get(), 16) != 0) {
    return Error{"cannot listen"};
  }
  return fd;
}

/// A hub and its ports, one thread for all.
struct Side {
  Side() : hub(must(MemifHub::open("test", listen_at))) {}
  /// Another end with a port of its own.
  MemifPort& add(const MemifEndConfig& config) {
    ports.push_back(must(MemifPort::create({config.socket, 2048}, pool)));
    EXPECT_TRUE(hub->add(config, *ports.back()));
    return *ports.back();
  }
  void start() {
    hub->start([this](std::size_t end, std::unique_ptr<MemifSegment> segment) {
      ++installs;
      ports[end]->install(std::move(segment));
    });
  }
  HeapPool pool{64, 2048};
  std::vector<std::unique_ptr<MemifPort>> ports;
  std::unique_ptr<MemifHub> hub;
  int installs = 0;
};

class MemifHubs : public ::testing::Test {
 protected:
  MemifHubs() {
    char name[] = "/tmp/mtl-memif-XXXXXX";
    directory = ::mkdtemp(name);
    socket = directory + "/s";
  }
  ~MemifHubs() override {
    ::unlink(socket.c_str());
    ::rmdir(directory.c_str());
  }
  MemifEndConfig end(MemifRole role, std::uint32_t id = 0, const std::string& secret = {}) {
    MemifEndConfig config;
    config.role = role;
    config.socket = socket;
    config.id = id;
    config.secret = memif_secret(secret);
    config.log2_ring = 4;
    config.buffer_bytes = 2048;
    return config;
  }
  /// Lets the hubs work until `condition` holds; a generous limit only turns a hang into a failure.
  template <class Condition>
  bool wait(std::initializer_list<MemifHub*> hubs, Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::vector<pollfd> fds;
      for (MemifHub* hub : hubs) fds.push_back({hub->fd(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), 20);
      for (MemifHub* hub : hubs) {
        hub->process();
        hub->sample();
      }
    }
    return true;
  }
  std::string directory, socket;
};

void expect_traffic(MemifPort& a, MemifPort& b) {
  for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const OutFrame out(500, 1);
    ASSERT_GT(from->room(), 0u);
    ASSERT_TRUE(from->send(out.frame));
    from->flush();
    const auto got = take(*to);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0], out.wire());
  }
}

TEST_F(MemifHubs, EndsComeAndGoWhileOthersCarry) {
  Side server, client;
  MemifPort& stays_there = server.add(end(MemifRole::kServer));
  MemifPort& stays_here = client.add(end(MemifRole::kClient));
  server.start();
  client.start();
  const auto hubs = {server.hub.get(), client.hub.get()};
  ASSERT_TRUE(wait(hubs, [&] { return stays_here.carrier() && stays_there.carrier(); }));
  const int installs = server.installs;
  for (int turn = 0; turn < 3; ++turn) {
    server.ports.push_back(must(MemifPort::create({"more", 2048}, server.pool)));
    client.ports.push_back(must(MemifPort::create({"more", 2048}, client.pool)));
    ASSERT_EQ(must(server.hub->add(end(MemifRole::kServer, 7), *server.ports.back())), 1u);
    ASSERT_EQ(must(client.hub->add(end(MemifRole::kClient, 7), *client.ports.back())), 1u)
        << "the number of the one before";
    ASSERT_TRUE(wait(
        hubs, [&] { return server.ports.back()->carrier() && client.ports.back()->carrier(); }));
    expect_traffic(*server.ports.back(), *client.ports.back());
    server.hub->remove(1);
    server.ports.pop_back();
    ASSERT_TRUE(wait(hubs, [&] { return !client.ports.back()->carrier(); }));
    client.hub->remove(1);
    client.ports.pop_back();
    expect_traffic(stays_there, stays_here);
  }
  EXPECT_EQ(server.installs, installs + 3) << "nothing is handed over for an end that is removed";
}

// Of the last end of a socket the socket goes, too, and strangers who hang on it.
TEST_F(MemifHubs, TheLastEndTakesItsSocketAlong) {
  std::vector<std::string> ended;
  Side server, client;
  server.hub =
      must(MemifHub::open("test", listen_at, [&](const std::string& at) { ended.push_back(at); }));
  server.start();
  client.start();
  client.add(end(MemifRole::kClient));
  const auto hubs = {server.hub.get(), client.hub.get()};
  for (int turn = 0; turn < 2; ++turn) {
    server.ports.clear();
    MemifPort& port = server.add(end(MemifRole::kServer));
    ASSERT_TRUE(wait(hubs, [&] { return port.carrier() && client.ports[0]->carrier(); }));
    Fd stranger(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un name = address(socket);
    ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    pollfd hello{stranger.get(), POLLIN, 0};
    ASSERT_TRUE(wait(hubs, [&] { return ::poll(&hello, 1, 0) == 1; }));
    server.hub->remove(0);
    server.ports.clear();
    ASSERT_EQ(ended, std::vector<std::string>(static_cast<std::size_t>(turn) + 1, socket));
    char bytes[256];
    EXPECT_GT(::recv(stranger.get(), bytes, sizeof bytes, 0), 0) << "what it was greeted with";
    EXPECT_EQ(::recv(stranger.get(), bytes, sizeof bytes, 0), 0);
    ASSERT_TRUE(wait(hubs, [&] { return !client.ports[0]->carrier(); }));
  }
}

TEST_F(MemifHubs, AClientAndAServerFindEachOther) {
  Side server, client;
  MemifPort& a = server.add(end(MemifRole::kServer));
  MemifPort& b = client.add(end(MemifRole::kClient));
  server.start();
  EXPECT_EQ(server.hub->fault(0), "waits for a client on " + socket + " (id 0)");
  client.start();
  ASSERT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  EXPECT_EQ(server.hub->fault(0), "");
  EXPECT_EQ(client.hub->fault(0), "");
  expect_traffic(a, b);
}

TEST_F(MemifHubs, AClientWaitsForItsServer) {
  Side client;
  MemifPort& b = client.add(end(MemifRole::kClient));
  client.start();
  ASSERT_TRUE(wait({client.hub.get()}, [&] { return !client.hub->fault(0).empty(); }));
  EXPECT_EQ(client.hub->fault(0),
            "no server at " + socket + " (No such file or directory); it is tried again and again");
  Side server;
  MemifPort& a = server.add(end(MemifRole::kServer));
  server.start();
  ASSERT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  expect_traffic(a, b);
}

TEST_F(MemifHubs, EitherMayGoAndComeAgain) {
  auto server = std::make_unique<Side>();
  auto client = std::make_unique<Side>();
  server->add(end(MemifRole::kServer));
  client->add(end(MemifRole::kClient));
  server->start();
  client->start();
  const auto up = [&] { return server->ports[0]->carrier() && client->ports[0]->carrier(); };
  ASSERT_TRUE(wait({server->hub.get(), client->hub.get()}, up));
  for (int turn = 0; turn < 3; ++turn) {
    client = std::make_unique<Side>();
    ASSERT_TRUE(wait({server->hub.get()}, [&] { return !server->ports[0]->carrier(); }));
    EXPECT_NE(server->hub->fault(0).find("The process ends"), std::string::npos);
    client->add(end(MemifRole::kClient));
    client->start();
    ASSERT_TRUE(wait({server->hub.get(), client->hub.get()}, up));
    expect_traffic(*server->ports[0], *client->ports[0]);
    server = std::make_unique<Side>();
    ASSERT_TRUE(wait({client->hub.get()}, [&] { return !client->ports[0]->carrier(); }));
    server->add(end(MemifRole::kServer));
    server->start();
    ASSERT_TRUE(wait({server->hub.get(), client->hub.get()}, up));
    expect_traffic(*server->ports[0], *client->ports[0]);
  }
}

TEST_F(MemifHubs, SeveralEndsOnOneSocket) {
  Side server, client;
  for (const std::uint32_t id : {5u, 6u, 7u}) server.add(end(MemifRole::kServer, id));
  for (const std::uint32_t id : {7u, 5u, 6u}) client.add(end(MemifRole::kClient, id));
  server.start();
  client.start();
  ASSERT_TRUE(wait({server.hub.get(), client.hub.get()}, [&] {
    for (auto* side : {&server, &client}) {
      for (const auto& port : side->ports) {
        if (!port->carrier()) return false;
      }
    }
    return true;
  }));
  expect_traffic(*server.ports[0], *client.ports[1]);
  expect_traffic(*server.ports[1], *client.ports[2]);
  expect_traffic(*server.ports[2], *client.ports[0]);
}

TEST_F(MemifHubs, TwoEndsOfOneIdAreRefused) {
  Side server;
  server.add(end(MemifRole::kServer, 5));
  const auto port = must(MemifPort::create({"x", 2048}, server.pool));
  const auto second = server.hub->add(end(MemifRole::kServer, 5), *port);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "memif: two ports serve " + socket + " (id 5); give each an id of its own");
}

TEST_F(MemifHubs, ASecondClientIsSentAwayAndTheFirstStays) {
  Side server, first, second;
  MemifPort& a = server.add(end(MemifRole::kServer));
  MemifPort& b = first.add(end(MemifRole::kClient));
  server.start();
  first.start();
  ASSERT_TRUE(
      wait({server.hub.get(), first.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  second.add(end(MemifRole::kClient));
  second.start();
  ASSERT_TRUE(wait({server.hub.get(), first.hub.get(), second.hub.get()}, [&] {
    return second.hub->fault(0).find("Already connected") != std::string::npos;
  }));
  expect_traffic(a, b);
  EXPECT_EQ(second.installs, 0);
}

TEST_F(MemifHubs, AWrongSecretIsToldAtBothEnds) {
  Side server, client;
  server.add(end(MemifRole::kServer, 0, "right"));
  client.add(end(MemifRole::kClient, 0, "wrong"));
  server.start();
  client.start();
  ASSERT_TRUE(wait({server.hub.get(), client.hub.get()}, [&] {
    return client.hub->fault(0).find("Incorrect secret") != std::string::npos;
  }));
  EXPECT_NE(server.hub->fault(0).find("Incorrect secret"), std::string::npos);
  EXPECT_EQ(server.installs, 0);
}

/// A peer by hand.
class Rogue {
 public:
  explicit Rogue(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const sockaddr_un name = address(path);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
      throw std::runtime_error("connect");
    }
  }
  bool send(std::span<const std::byte> bytes, std::initializer_list<int> fds = {}) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
    if (fds.size() > 0) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(c), fds.begin(), fds.size() * sizeof(int));
    }
    return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0;
  }
  bool say(const MemifMessage& message, std::initializer_list<int> fds = {}) {
    return send(encode(message), fds);
  }
  /// What has come, and "" once the other side has gone.
  std::string last_reason() {
    std::array<std::byte, 256> bytes;
    ssize_t n = 0;
    while ((n = ::recv(fd_.get(), bytes.data(), bytes.size(), 0)) > 0) {
      const auto message = decode_memif({bytes.data(), static_cast<std::size_t>(n)});
      if (message && std::holds_alternative<MemifDisconnect>(*message)) {
        reason_ = std::get<MemifDisconnect>(*message).reason;
      }
    }
    gone_ = n == 0;
    return reason_;
  }
  bool gone() {
    last_reason();
    return gone_;
  }

 private:
  Fd fd_;
  std::string reason_;
  bool gone_ = false;
};

TEST_F(MemifHubs, NonsenseIsAnsweredAndSentAway) {
  Side server;
  server.add(end(MemifRole::kServer));
  server.start();
  const Fd some(::eventfd(0, EFD_CLOEXEC));
  const int fd = some.get();
  const auto reason = [&](auto&& say) {
    Rogue rogue(socket);
    say(rogue);
    EXPECT_TRUE(wait({server.hub.get()}, [&] { return rogue.gone(); }));
    return rogue.last_reason();
  };
  const std::vector<std::byte> junk(200, std::byte{0xFF});
  EXPECT_EQ(reason([&](Rogue& r) { r.send(std::span(junk).first(1)); }), "Invalid message size");
  EXPECT_EQ(reason([&](Rogue& r) { r.send(junk); }), "Invalid message size");
  EXPECT_EQ(reason([&](Rogue& r) { r.send(std::span(junk).first(128)); }), "Unknown message type");
  EXPECT_EQ(reason([&](Rogue& r) { r.say(MemifConnect{}); }), "Unexpected message");
  EXPECT_EQ(reason([&](Rogue& r) { r.say(MemifInit{}, {fd, fd, fd}); }), "Too many descriptors");
  EXPECT_EQ(reason([&](Rogue& r) {
              r.say(MemifInit{}, {fd, fd, fd, fd, fd, fd, fd});
            }),
            "Too many descriptors");
  EXPECT_EQ(reason([&](Rogue& r) {
              r.say(MemifInit{});
              r.say(MemifAddRegion{0, 4096}, {fd});
              r.say(MemifAddRing{true, 0, 0, 0, 4}, {fd});
              r.say(MemifAddRing{false, 0, 0, 1024, 4}, {fd});
              r.say(MemifConnect{});
            }),
            "Region is no memfd");
  EXPECT_EQ(server.installs, 0);
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST_F(MemifHubs, DescriptorsThatComeWithNoMessageAreNotKept) {
  Side server;
  server.add(end(MemifRole::kServer));
  server.start();
  const Fd some(::eventfd(0, EFD_CLOEXEC));
  const int fd = some.get();
  const auto before = open_descriptors();
  for (int turn = 0; turn < 10; ++turn) {
    Rogue rogue(socket);
    ASSERT_TRUE(rogue.send({}, {fd, fd, fd, fd}));
    ASSERT_TRUE(wait({server.hub.get()}, [&] { return rogue.gone(); }));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(MemifHubs, OneThatSaysNothingIsSentAwayAndHoldsNobodyUp) {
  Side server, client;
  MemifPort& a = server.add(end(MemifRole::kServer));
  server.start();
  Rogue silent(socket);
  MemifPort& b = client.add(end(MemifRole::kClient));
  client.start();
  ASSERT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  ASSERT_TRUE(wait({server.hub.get(), client.hub.get()}, [&] { return silent.gone(); }));
  EXPECT_EQ(silent.last_reason(), "Too slow");
  EXPECT_TRUE(a.carrier());
}

TEST_F(MemifHubs, ManyThatSayNothingGiveWayToOneThatDoes) {
  Side server, client;
  MemifPort& a = server.add(end(MemifRole::kServer));
  server.start();
  std::deque<Rogue> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(socket);
    server.hub->process();
  }
  int gone = 0;
  for (Rogue& rogue : silent) gone += rogue.gone() ? 1 : 0;
  EXPECT_EQ(gone, 100 - static_cast<int>(MemifHub::kMaxStrangers));
  MemifPort& b = client.add(end(MemifRole::kClient));
  client.start();
  EXPECT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
}

TEST_F(MemifHubs, APeerThatBreaksTheRingsIsSentAwayAndTheNextOneComesIn) {
  Side server, client;
  MemifPort& a = server.add(end(MemifRole::kServer));
  server.start();
  auto segment = must(MemifSegment::create(4, 2048));
  const MemifLayout layout = must(segment->layout());
  Rogue rogue(socket);
  rogue.say(MemifInit{});
  rogue.say(MemifAddRegion{0, layout.regions[0].size}, {layout.regions[0].memory.get()});
  rogue.say(MemifAddRing{true, 0, 0, layout.to_server.offset, 4},
            {layout.to_server.interrupt.get()});
  rogue.say(MemifAddRing{false, 0, 0, layout.to_client.offset, 4},
            {layout.to_client.interrupt.get()});
  rogue.say(MemifConnect{"rogue"});
  ASSERT_TRUE(wait({server.hub.get()}, [&] { return a.carrier(); }));
  test::MemifScribbler peer(layout);
  test::MemifScribbler::set(peer.to_server.head(), 17);
  take(a);
  EXPECT_EQ(server.hub->fault(0), "the peer is given up: an index of a ring went where it cannot");
  ASSERT_TRUE(wait({server.hub.get()}, [&] { return rogue.gone(); }));
  EXPECT_EQ(rogue.last_reason(), "an index of a ring went where it cannot");
  EXPECT_EQ(server.installs, 2);
  MemifPort& b = client.add(end(MemifRole::kClient));
  client.start();
  ASSERT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  expect_traffic(a, b);
}

TEST_F(MemifHubs, AConnectedPeerThatGoesOnTalkingIsSentAway) {
  Side server;
  server.add(end(MemifRole::kServer));
  server.start();
  auto segment = must(MemifSegment::create(4, 2048));
  const MemifLayout layout = must(segment->layout());
  Rogue rogue(socket);
  rogue.say(MemifInit{});
  rogue.say(MemifAddRegion{0, layout.regions[0].size}, {layout.regions[0].memory.get()});
  rogue.say(MemifAddRing{true, 0, 0, layout.to_server.offset, 4},
            {layout.to_server.interrupt.get()});
  rogue.say(MemifAddRing{false, 0, 0, layout.to_client.offset, 4},
            {layout.to_client.interrupt.get()});
  rogue.say(MemifConnect{"rogue"});
  ASSERT_TRUE(wait({server.hub.get()}, [&] { return server.ports[0]->carrier(); }));
  rogue.say(MemifAck{});
  ASSERT_TRUE(wait({server.hub.get()}, [&] { return rogue.gone(); }));
  EXPECT_EQ(rogue.last_reason(), "Unexpected message");
  EXPECT_FALSE(server.ports[0]->carrier());
}

// A server that refuses, or says nothing, is asked again; nothing is left behind each time.
TEST_F(MemifHubs, AServerThatIsNoneIsTriedAgain) {
  const Fd listening = must(listen_at(socket));
  Side client;
  client.add(end(MemifRole::kClient));
  client.start();
  for (int turn = 0; turn < 3; ++turn) {
    Fd accepted;
    ASSERT_TRUE(wait({client.hub.get()}, [&] {
      accepted = Fd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(accepted);
    }));
    const MemifBytes junk{};
    ASSERT_EQ(::send(accepted.get(), junk.data(), junk.size(), MSG_NOSIGNAL), 128);
    ASSERT_TRUE(wait({client.hub.get()}, [&] {
      return client.hub->fault(0).find("Unknown message type") != std::string::npos;
    }));
  }
  EXPECT_EQ(client.installs, 0);
}

// Of what cannot be watched at first, as when fs.epoll.max_user_watches is used up: a file is such.
TEST_F(MemifHubs, AListenerThatCannotBeWatchedIsTriedAgain) {
  int number = -1;
  Side server, client;
  server.hub = must(MemifHub::open("test", [&](const std::string&) -> Result<Fd> {
    Fd file(::memfd_create("x", MFD_CLOEXEC));
    number = file.get();
    return file;
  }));
  MemifPort& a = server.add(end(MemifRole::kServer));
  MemifPort& b = client.add(end(MemifRole::kClient));
  server.start();
  EXPECT_EQ(server.hub->fault(0), "waits for a client on " + socket +
                                      " (id 0); no client can be let in: Operation not permitted");
  const Fd listening = must(listen_at(socket));
  ASSERT_EQ(::dup2(listening.get(), number), number);
  client.start();
  ASSERT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
  EXPECT_EQ(server.hub->fault(0), "");
}

TEST_F(MemifHubs, AnAbstractName) {
  const std::string name = "@mtl-memif-test-" + std::to_string(::getpid());
  const auto listen = [](const std::string& at) -> Result<Fd> {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un named = address(at);
    named.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + at.size());
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&named), length) != 0 ||
        ::listen(fd.get(), 4) != 0) {
      return Error{"cannot listen"};
    }
    return fd;
  };
  Side server, client;
  server.hub = must(MemifHub::open("test", listen));
  MemifEndConfig config = end(MemifRole::kServer);
  config.socket = name;
  MemifPort& a = server.add(config);
  config.role = MemifRole::kClient;
  MemifPort& b = client.add(config);
  server.start();
  client.start();
  EXPECT_TRUE(
      wait({server.hub.get(), client.hub.get()}, [&] { return a.carrier() && b.carrier(); }));
}

}  // namespace
}  // namespace mtl::phy
