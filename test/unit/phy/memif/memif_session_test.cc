// Both roles of memif's control connection, message by message.

#include "phy/memif/memif_session.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <map>
#include <random>

namespace mtl::phy {
namespace {

Fd some_fd() {
  return Fd(::eventfd(0, EFD_CLOEXEC));
}

template <class... T>
std::vector<Fd> list(T... fd) {
  std::vector<Fd> out;
  (out.push_back(std::move(fd)), ...);
  return out;
}

/// A server's session and what it offers.
struct Server {
  std::map<std::uint32_t, MemifSession::Offer> offers{{7, {}}};
  MemifSession session = MemifSession::server("us", [this](std::uint32_t id) {
    const auto found = offers.find(id);
    return found == offers.end() ? nullptr : &found->second;
  });
  Server() { EXPECT_TRUE(session.next()) << "HELLO"; }

  void say(const MemifMessage& message, std::vector<Fd> fds = {}) {
    session.receive(encode(message), std::move(fds));
  }
  /// The next message out.
  MemifMessage hear() {
    const auto out = session.next();
    EXPECT_TRUE(out);
    return out ? *decode_memif(out->bytes) : MemifMessage{};
  }
  bool acknowledged() {
    const auto out = session.next();
    return out && std::holds_alternative<MemifAck>(*decode_memif(out->bytes));
  }
  void init(std::uint32_t id = 7) {
    MemifInit init;
    init.id = id;
    init.name = "them";
    say(init);
  }
  void region(std::uint16_t index = 0, std::uint64_t size = 65536) {
    say(MemifAddRegion{index, size}, list(some_fd()));
  }
  void ring(bool to_server, std::uint32_t offset, std::uint8_t log2 = 4, std::uint16_t region = 0) {
    say(MemifAddRing{to_server, 0, region, offset, log2}, list(some_fd()));
  }
  void set_up() {
    init();
    region();
    ring(true, 0);
    ring(false, 1024);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(acknowledged());
  }
  void expect_sent_away(const std::string& reason) {
    ASSERT_TRUE(session.ended());
    const MemifMessage last = hear();
    ASSERT_TRUE(std::holds_alternative<MemifDisconnect>(last));
    EXPECT_EQ(std::get<MemifDisconnect>(last).reason, reason);
    EXPECT_EQ(session.why(), "the peer was sent away: " + reason);
    EXPECT_FALSE(session.next());
    say(MemifAck{});  // and nothing is answered any more
    EXPECT_FALSE(session.next());
  }
};

TEST(MemifServer, GreetsWithWhatItCan) {
  auto session = MemifSession::server("us", {});
  const auto hello = std::get<MemifHello>(*decode_memif(session.next()->bytes));
  EXPECT_EQ(hello.name, "us");
  EXPECT_EQ(hello.min_version, 0x0200);
  EXPECT_EQ(hello.max_version, 0x0200);
  EXPECT_EQ(hello.max_s2c_ring, 0) << "one ring each way: index 0";
  EXPECT_EQ(hello.max_c2s_ring, 0);
  EXPECT_EQ(hello.max_region, 7);
  EXPECT_EQ(hello.max_log2_ring, 14);
}

TEST(MemifServer, TakesAClientStepByStep) {
  Server server;
  server.set_up();
  EXPECT_FALSE(server.session.ready());
  server.say(MemifConnect{"their end"});
  EXPECT_TRUE(server.session.ready());
  EXPECT_EQ(server.session.id(), 7u);
  EXPECT_EQ(server.session.peer(), "them");
  EXPECT_FALSE(server.session.next()) << "nothing before the owner says so";
  const MemifLayout layout = server.session.take_layout();
  ASSERT_EQ(layout.regions.size(), 1u);
  EXPECT_EQ(layout.regions[0].size, 65536u);
  EXPECT_EQ(layout.to_server.offset, 0u);
  EXPECT_EQ(layout.to_client.offset, 1024u);
  EXPECT_EQ(layout.to_client.log2, 4);
  EXPECT_GE(layout.to_client.interrupt.get(), 0);
  server.session.connected();
  EXPECT_TRUE(server.session.up());
  EXPECT_EQ(std::get<MemifConnected>(server.hear()).name, "us");
}

TEST(MemifServer, AnotherVersion) {
  Server server;
  MemifInit init;
  init.id = 7;
  init.version = 0x0300;
  server.say(init);
  server.expect_sent_away("Incompatible memif version");
}

TEST(MemifServer, AnIdThatIsNotThere) {
  Server server;
  server.init(8);
  server.expect_sent_away("ID not found");
}

TEST(MemifServer, AnIdThatIsTaken) {
  Server server;
  server.offers[7].taken = true;
  server.init();
  server.expect_sent_away("Already connected");
}

TEST(MemifServer, AnotherMode) {
  Server server;
  MemifInit init;
  init.id = 7;
  init.mode = 1;  // IP
  server.say(init);
  server.expect_sent_away("Only ethernet mode supported");
}

TEST(MemifServer, TheSecret) {
  const auto ask = [](const std::string& secret) {
    Server server;
    server.offers[7].secret = memif_secret("abcdefghijklmnopqrstuvwx");  // all of its 24 bytes
    MemifInit init;
    init.id = 7;
    init.secret = memif_secret(secret);
    server.say(init);
    const auto out = server.hear();
    if (std::holds_alternative<MemifAck>(out)) return std::string("let in");
    return std::get<MemifDisconnect>(out).reason;
  };
  EXPECT_EQ(ask("abcdefghijklmnopqrstuvwx"), "let in");
  EXPECT_EQ(ask(""), "Secret required");
  EXPECT_EQ(ask("abcdefghijklmnopqrstuvwy"), "Incorrect secret");
  EXPECT_EQ(ask("abc"), "Incorrect secret");
}

TEST(MemifServer, ASecretOfTheClientAloneDoesNotMatter) {
  Server server;
  MemifInit init;
  init.id = 7;
  init.secret = memif_secret("x");
  server.say(init);
  EXPECT_TRUE(server.acknowledged());
}

TEST(MemifServer, DescriptorsMissingOrTooMany) {
  for (const bool many : {false, true}) {
    const std::string said = many ? "Too many descriptors" : "Missing descriptor";
    const auto fds = [&] { return many ? list(some_fd(), some_fd()) : std::vector<Fd>(); };
    Server region;
    region.init();
    EXPECT_TRUE(region.acknowledged());
    region.say(MemifAddRegion{0, 65536}, fds());
    region.expect_sent_away(said);
    Server ring;
    ring.init();
    EXPECT_TRUE(ring.acknowledged());
    ring.say(MemifAddRing{true, 0, 0, 0, 4}, fds());
    ring.expect_sent_away(said);
  }
  Server init;
  MemifInit message;
  message.id = 7;
  init.say(message, list(some_fd()));
  init.expect_sent_away("Too many descriptors");
}

TEST(MemifServer, RegionsOutOfBounds) {
  const auto refused = [](std::uint16_t index, std::uint64_t size) {
    Server server;
    server.init();
    EXPECT_TRUE(server.acknowledged());
    server.region(index, size);
    return std::get<MemifDisconnect>(server.hear()).reason;
  };
  EXPECT_EQ(refused(1, 65536), "Invalid region index") << "they come in order";
  EXPECT_EQ(refused(0xFFFF, 65536), "Invalid region index");
  EXPECT_EQ(refused(0, 0), "Invalid region size");
  EXPECT_EQ(refused(0, std::uint64_t{1} << 31), "Invalid region size");
  EXPECT_EQ(refused(0, ~std::uint64_t{0}), "Invalid region size");
}

TEST(MemifServer, NoMoreRegionsThanItSaid) {
  Server server;
  server.init();
  for (std::uint16_t i = 0; i < 8; ++i) server.region(i);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(server.acknowledged()) << i;
  server.region(8);
  server.expect_sent_away("More than 8 regions");
}

// Of a sparse file a few bytes are enough for any size: it counts what is said.
TEST(MemifServer, NoMoreMemoryThanItIsAllowed) {
  Server server;
  server.init();
  server.region(0, std::uint64_t{100} << 20);
  server.region(1, std::uint64_t{28} << 20);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(server.acknowledged()) << i;
  server.region(2, 1);
  server.expect_sent_away("Regions of more than 128 MiB: the server's max_region_mib");
  Server small;
  small.offers[7].max_region_mib = 3;
  small.init();
  ASSERT_TRUE(small.acknowledged());
  small.region(0, (std::uint64_t{3} << 20) + 1);
  small.expect_sent_away("Regions of more than 3 MiB: the server's max_region_mib");
}

TEST(MemifServer, RingsOutOfBounds) {
  const auto refused = [](const MemifAddRing& ring) {
    Server server;
    server.init();
    EXPECT_TRUE(server.acknowledged());
    server.say(ring, list(some_fd()));
    return std::get<MemifDisconnect>(server.hear()).reason;
  };
  EXPECT_EQ(refused({true, 1, 0, 0, 4}), "Invalid ring index");
  EXPECT_EQ(refused({true, 0, 0, 0, 0}), "Invalid ring size");
  EXPECT_EQ(refused({true, 0, 0, 0, 15}), "Invalid ring size");
  EXPECT_EQ(refused({true, 0, 0, 0, 255}), "Invalid ring size");
  EXPECT_EQ(refused({true, 0, 0, 4, 4}), "Misaligned ring");
}

TEST(MemifServer, ARingTwice) {
  Server server;
  server.init();
  server.ring(true, 0);
  EXPECT_TRUE(server.acknowledged());
  EXPECT_TRUE(server.acknowledged());
  server.ring(true, 0);
  server.expect_sent_away("Duplicate ring");
}

TEST(MemifServer, ConnectWithoutARingOrOneOutsideItsRegion) {
  const auto refused = [](auto&& say) {
    Server server;
    server.init();
    say(server);
    server.say(MemifConnect{});
    MemifMessage last;
    while (const auto out = server.session.next()) last = *decode_memif(out->bytes);
    return std::holds_alternative<MemifDisconnect>(last) ? std::get<MemifDisconnect>(last).reason
                                                         : "let in";
  };
  const auto rings = [](std::uint32_t offset, std::uint8_t log2, std::uint16_t region = 0) {
    return [=](Server& server) {
      server.region(0, 4096);
      server.ring(true, 0);
      server.ring(false, offset, log2, region);
    };
  };
  EXPECT_EQ(refused([](Server& s) { s.ring(true, 0); }), "Missing ring");
  EXPECT_EQ(refused([](Server&) {}), "Missing ring");
  // 16 descriptors of 16 bytes behind 128: 384 bytes.
  EXPECT_EQ(refused(rings(4096 - 384, 4)), "let in");
  EXPECT_EQ(refused(rings(4096 - 384 + 8, 4)), "Ring outside its region");
  EXPECT_EQ(refused(rings(0xFFFFFFF8, 4)), "Ring outside its region");
  EXPECT_EQ(refused(rings(0, 14)), "Ring outside its region");
  EXPECT_EQ(refused(rings(0, 4, 1)), "Ring outside its region");
  EXPECT_EQ(refused(rings(0, 4, 0xFFFF)), "Ring outside its region");
}

TEST(MemifServer, MessagesOutOfOrder) {
  const MemifMessage before_init[] = {MemifAck{}, MemifHello{}, MemifConnect{}, MemifConnected{}};
  for (const MemifMessage& message : before_init) {
    Server server;
    server.say(message);
    server.expect_sent_away("Unexpected message");
  }
  Server region;
  region.region();
  region.expect_sent_away("Unexpected message");
  Server twice;
  twice.init();
  EXPECT_TRUE(twice.acknowledged());
  twice.init();
  twice.expect_sent_away("Unexpected message");
  Server late;
  late.set_up();
  late.say(MemifConnect{});
  late.ring(true, 0);
  late.expect_sent_away("Unexpected message");
}

TEST(MemifServer, JunkOfAnyLength) {
  for (const std::size_t length : {0u, 1u, 127u, 129u}) {
    Server server;
    server.session.receive(std::vector<std::byte>(length), {});
    server.expect_sent_away("Invalid message size");
  }
  Server server;
  server.session.receive(std::vector<std::byte>(128, std::byte{0xFF}), {});
  server.expect_sent_away("Unknown message type");
}

TEST(MemifServer, HearsWhyAClientLeaves) {
  Server server;
  server.set_up();
  server.say(MemifDisconnect{1, "going home"});
  EXPECT_TRUE(server.session.ended());
  EXPECT_EQ(server.session.why(), "the peer said: going home");
  EXPECT_FALSE(server.session.next());
}

// --- client ---

/// A client's session, and memory without any in it.
struct Client {
  std::uint8_t asked_log2 = 0;
  bool fails = false;
  MemifSession session = MemifSession::client("us", {7, memif_secret("s"), 10},
                                              [this](std::uint8_t log2) -> Result<MemifLayout> {
                                                asked_log2 = log2;
                                                if (fails) return Error{"no memory at all"};
                                                MemifLayout layout;
                                                layout.regions.push_back({some_fd(), 1 << 20});
                                                layout.to_server = {0, 0, log2, some_fd()};
                                                layout.to_client = {0, 32768, log2, some_fd()};
                                                return layout;
                                              });
  void hello(std::uint16_t least = 0x0200, std::uint16_t most = 0x0200, std::uint8_t log2 = 14) {
    session.receive(encode(MemifHello{"them", least, most, 10, 0, 0, log2}), {});
  }
  void ack() { session.receive(encode(MemifAck{}), {}); }
  std::string sent_away() {
    const auto out = session.next();
    if (!out || !session.ended()) return "no";
    return std::get<MemifDisconnect>(*decode_memif(out->bytes)).reason;
  }
};

TEST(MemifClient, SaysOneThingAfterTheOther) {
  Client client;
  EXPECT_FALSE(client.session.next()) << "the server speaks first";
  client.hello();
  auto out = client.session.next();
  const auto init = std::get<MemifInit>(*decode_memif(out->bytes));
  EXPECT_EQ(init.id, 7u);
  EXPECT_EQ(init.version, 0x0200);
  EXPECT_EQ(init.secret, memif_secret("s"));
  EXPECT_EQ(init.mode, 0);
  EXPECT_FALSE(client.session.next());
  EXPECT_EQ(client.asked_log2, 0) << "no memory for a server that has not let it in";
  client.ack();
  EXPECT_EQ(client.asked_log2, 10);
  out = client.session.next();
  const auto region = std::get<MemifAddRegion>(*decode_memif(out->bytes));
  EXPECT_EQ(region.index, 0);
  EXPECT_EQ(region.size, 1u << 20);
  EXPECT_GE(out->fd, 0);
  for (const bool to_server : {true, false}) {
    client.ack();
    out = client.session.next();
    const auto ring = std::get<MemifAddRing>(*decode_memif(out->bytes));
    EXPECT_EQ(ring.to_server, to_server);
    EXPECT_EQ(ring.index, 0);
    EXPECT_EQ(ring.offset, to_server ? 0u : 32768u);
    EXPECT_EQ(ring.log2_ring, 10);
    EXPECT_GE(out->fd, 0);
  }
  client.ack();
  EXPECT_TRUE(std::holds_alternative<MemifConnect>(*decode_memif(client.session.next()->bytes)));
  EXPECT_FALSE(client.session.ready());
  client.session.receive(encode(MemifConnected{"x"}), {});
  EXPECT_TRUE(client.session.ready());
  client.session.connected();
  EXPECT_TRUE(client.session.up());
  EXPECT_FALSE(client.session.next());
}

TEST(MemifClient, MakesRingsNoLongerThanTheServerTakes) {
  Client client;
  client.hello(0x0200, 0x0200, 6);
  client.ack();
  EXPECT_EQ(client.asked_log2, 6);
  Client none;
  none.hello(0x0200, 0x0200, 0);
  EXPECT_EQ(none.sent_away(), "Invalid ring size");
}

TEST(MemifClient, TakesAServerThatKnowsItsVersionAmongOthers) {
  Client client;
  client.hello(0x0100, 0x0300);
  EXPECT_FALSE(client.session.ended());
  for (const auto& [least, most] : {std::pair{0x0201, 0x0300}, std::pair{0x0100, 0x0101}}) {
    Client other;
    other.hello(static_cast<std::uint16_t>(least), static_cast<std::uint16_t>(most));
    EXPECT_EQ(other.sent_away(), "Incompatible memif version");
  }
}

TEST(MemifClient, SaysWhenItHasNoMemory) {
  Client client;
  client.fails = true;
  client.hello();
  ASSERT_TRUE(client.session.next()) << "INIT";
  client.ack();
  EXPECT_EQ(client.sent_away(), "No memory");
  EXPECT_EQ(client.session.why(), "no memory at all");
}

TEST(MemifClient, MessagesOutOfOrder) {
  Client ack;
  ack.ack();
  EXPECT_EQ(ack.sent_away(), "Unexpected message");
  Client early;
  early.hello();
  ASSERT_TRUE(early.session.next());
  early.session.receive(encode(MemifConnected{}), {});
  EXPECT_EQ(early.sent_away(), "Unexpected message");
  Client twice;
  twice.hello();
  ASSERT_TRUE(twice.session.next());
  twice.hello();
  EXPECT_EQ(twice.sent_away(), "Unexpected message");
  Client many;
  many.hello();
  for (int i = 0; i < 5; ++i) many.ack();
  while (!many.session.ended() && many.session.next()) {
  }
  EXPECT_TRUE(many.session.ended() || !many.session.ready());
}

TEST(MemifClient, HearsWhyTheServerRefuses) {
  Client client;
  client.hello();
  ASSERT_TRUE(client.session.next());
  client.session.receive(encode(MemifDisconnect{0, "Incorrect secret"}), {});
  EXPECT_TRUE(client.session.ended());
  EXPECT_EQ(client.session.why(), "the peer said: Incorrect secret");
}

// Whatever comes in whatever order: a session ends or goes on, and answers no more than it was
// asked.
TEST(MemifSessions, RandomMessages) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    Server server;
    Client client;
    for (MemifSession* session : {&server.session, &client.session}) {
      for (int i = 0; i < 12; ++i) {
        MemifBytes bytes{};
        bytes[0] = static_cast<std::byte>(random() % 10);
        for (std::size_t k = 2; k < 20; ++k) {
          bytes[k] = random() % 3 == 0 ? static_cast<std::byte>(random()) : std::byte{0};
        }
        if (random() % 2 == 0 && bytes[0] == std::byte{3}) bytes[3] = std::byte{2};
        std::vector<Fd> fds;
        for (auto n = random() % 3; n > 0; --n) fds.push_back(some_fd());
        session->receive(bytes, std::move(fds));
        unsigned said = 0;
        while (session->next()) ++said;
        EXPECT_LE(said, 1u);
        if (session->ready()) session->connected();
      }
    }
  }
}

}  // namespace
}  // namespace mtl::phy
