#include "phy/local_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <vector>

#include "frames.h"
#include "local_pair.h"

namespace mtl::phy {
namespace {

using test::copy_of;
using test::LocalPair;
using test::must;
using test::OutFrame;
using test::take;
using Frames = std::vector<std::vector<std::byte>>;

bool readable(const Port& port) {
  pollfd poll_fd{port.traits().wake_fd, POLLIN, 0};
  return ::poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
}

void send_one(Port& port, std::size_t length, std::uint64_t number) {
  const OutFrame out(length, number);
  ASSERT_GT(port.room(), 0u);
  ASSERT_TRUE(port.send(out.frame));
  port.flush();
}

TEST(LocalPort, TellsWhatItsMediumDoes) {
  LocalPair pair;
  for (const Port* port :
       {static_cast<Port*>(pair.switch_end.get()), static_cast<Port*>(pair.endpoint.get())}) {
    EXPECT_EQ(port->traits().driver, "local");
    EXPECT_EQ(port->traits().max_frame, 2048u);
    EXPECT_FALSE(port->traits().lossy);
    EXPECT_TRUE(port->traits().knows_carrier);
    EXPECT_GE(port->traits().wake_fd, 0);
  }
  EXPECT_EQ(pair.switch_end->traits().device, "slot0");
}

TEST(LocalPort, FramesArriveBothWaysInOrderAndUnaltered) {
  LocalPair pair;
  for (auto [from, to] : {std::pair{pair.switch_end.get(), pair.endpoint.get()},
                          std::pair{pair.endpoint.get(), pair.switch_end.get()}}) {
    Frames sent;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const OutFrame out(16 + 97 * i, i);
      sent.push_back(out.wire());
      ASSERT_TRUE(from->send(out.frame));
    }
    EXPECT_TRUE(take(*to).empty()) << "nothing is to be seen before flush()";
    from->flush();
    EXPECT_EQ(take(*to), sent);
    EXPECT_TRUE(take(*to).empty());
    EXPECT_EQ(from->counters().frames_out.get(), 10u);
    EXPECT_EQ(to->counters().frames_in.get(), 10u);
    EXPECT_EQ(to->counters().bytes_in.get(), from->counters().bytes_out.get());
  }
}

TEST(LocalPort, P4_PadsWithZerosToTheLengthAsked) {
  LocalPair pair;
  // Leave something else than zeros in the ring first.
  for (int i = 0; i < 100; ++i) {
    send_one(*pair.switch_end, 1000, 1);
    ASSERT_EQ(take(*pair.endpoint).size(), 1u);
  }
  OutFrame out(16, 2);
  out.frame.min_length = 1500;
  ASSERT_TRUE(pair.switch_end->send(out.frame));
  pair.switch_end->flush();
  EXPECT_EQ(take(*pair.endpoint), Frames{out.wire()});
}

TEST(LocalPort, ControlFramesHaveNoPacket) {
  LocalPair pair;
  link::FrameOut out;
  out.kind = link::Kind::kStatus;
  for (std::size_t i = 0; i < 54; ++i) out.head[i] = test::pattern(9, i);
  out.head_length = 54;
  ASSERT_TRUE(pair.endpoint->send(out));
  pair.endpoint->flush();
  std::vector<std::byte> wire(out.head.begin(), out.head.begin() + 54);
  wire.resize(60);
  EXPECT_EQ(take(*pair.switch_end), Frames{wire});
}

TEST(LocalPort, RecordsWrapAtEveryPlaceInTheRing) {
  LocalPair pair;
  // Records of 56 to 2056 bytes against a ring of 65536: thousands of different places.
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::size_t length = 16 + (i * 37) % 2003;
    const OutFrame out(length, i);
    ASSERT_TRUE(pair.endpoint->room() > 0 && pair.endpoint->send(out.frame));
    pair.endpoint->flush();
    ASSERT_EQ(take(*pair.switch_end), Frames{out.wire()}) << i;
  }
}

TEST(LocalPort, LongestFramesOf60KiB) {
  LocalPair pair({"big", 1u << 18, kMaxLocalFrame});
  for (std::uint64_t round = 0; round < 20; ++round) {
    Frames sent;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const OutFrame out(kMaxLocalFrame - 30, round * 4 + i);
      sent.push_back(out.wire());
      ASSERT_GT(pair.switch_end->room(), 0u);
      ASSERT_TRUE(pair.switch_end->send(out.frame));
    }
    EXPECT_EQ(pair.switch_end->room(), 0u);
    pair.switch_end->flush();
    ASSERT_EQ(take(*pair.endpoint), sent);
  }
}

TEST(LocalPort, N2_ThePacketCrcIsCheckedOnTheWay) {
  LocalPair pair;
  OutFrame good(500, 1), bad(500, 2);
  bad.frame.packet->data[200] ^= std::byte{0x10};
  OutFrame lying(500, 3);  // a length that goes beyond the frame
  store16(&lying.frame.head[16], 501);
  link::FrameOut status;
  status.head_length = 54;
  store8(&status.head[14], 0x11);
  store16(&status.head[16], 24);
  for (const link::FrameOut* out : {&good.frame, &bad.frame, &lying.frame, &status}) {
    ASSERT_TRUE(pair.switch_end->send(*out));
  }
  pair.switch_end->flush();
  Buffer* in[4];
  ASSERT_EQ(pair.endpoint->receive(in), 4u);
  EXPECT_EQ(in[0]->notes.crc, CrcState::kGood);
  EXPECT_EQ(in[1]->notes.crc, CrcState::kBad);
  EXPECT_EQ(in[2]->notes.crc, CrcState::kUnknown);
  EXPECT_EQ(in[3]->notes.crc, CrcState::kUnknown);
  for (Buffer* frame : in) give_back(frame);
}

TEST(LocalPort, RoomHoldsForLongestFramesUntilTheRingIsFull) {
  LocalPair pair;
  const unsigned room = pair.switch_end->room();
  EXPECT_EQ(room, 65536u / (8 + 2048));
  const OutFrame out(2048 - 30, 1);
  for (unsigned i = 0; i < room; ++i) ASSERT_TRUE(pair.switch_end->send(out.frame)) << i;
  EXPECT_EQ(pair.switch_end->room(), 0u);
  EXPECT_FALSE(pair.switch_end->send(out.frame));
  EXPECT_EQ(pair.switch_end->counters().send_full.get(), 1u);
  pair.switch_end->flush();
  EXPECT_EQ(take(*pair.endpoint).size(), room);
  EXPECT_EQ(pair.switch_end->room(), room);
}

TEST(LocalPort, AFrameLongerThanAgreedIsRefusedAndCounted) {
  LocalPair pair;
  const OutFrame fits(2048 - 30, 1), over(2048 - 29, 2);
  EXPECT_TRUE(pair.switch_end->send(fits.frame));
  EXPECT_FALSE(pair.switch_end->send(over.frame));
  EXPECT_EQ(pair.switch_end->counters().drops.get(Drop::kTooLong), 1u);
  pair.switch_end->flush();
  EXPECT_EQ(take(*pair.endpoint), Frames{fits.wire()});
}

TEST(LocalPort, AnEmptyPoolLeavesFramesInTheRing) {
  LocalPair pair({"slot0", 65536, 2048}, 2);
  Frames sent;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const OutFrame out(100, i);
    sent.push_back(out.wire());
    ASSERT_TRUE(pair.switch_end->send(out.frame));
  }
  pair.switch_end->flush();
  Buffer* held[8];
  ASSERT_EQ(pair.endpoint->receive(held), 2u);
  Buffer* none[1];
  EXPECT_EQ(pair.endpoint->receive(none), 0u);
  EXPECT_FALSE(pair.endpoint->arm()) << "frames are waiting";
  give_back(held[0]);
  give_back(held[1]);
  Frames rest = take(*pair.endpoint);
  for (auto& each : take(*pair.endpoint)) rest.push_back(each);
  EXPECT_EQ(rest, Frames(sent.begin() + 2, sent.end()));
  EXPECT_EQ(pair.endpoint->counters().drops.get(Drop::kNoBuffer), 0u);
  EXPECT_FALSE(pair.endpoint->broken());
}

TEST(LocalPort, TheDoorbellRingsOnceForASleeperAndNeverForTheWakeful) {
  LocalPair pair;
  pair.endpoint->disarm();
  pair.switch_end->disarm();  // what attaching rang
  send_one(*pair.switch_end, 100, 1);
  EXPECT_FALSE(readable(*pair.endpoint)) << "nobody slept";
  EXPECT_FALSE(pair.endpoint->arm()) << "a frame is waiting";
  ASSERT_EQ(take(*pair.endpoint).size(), 1u);

  EXPECT_TRUE(pair.endpoint->arm());
  EXPECT_FALSE(readable(*pair.endpoint));
  send_one(*pair.switch_end, 100, 2);
  send_one(*pair.switch_end, 100, 3);
  EXPECT_TRUE(readable(*pair.endpoint));
  char bell[8];
  EXPECT_EQ(::recv(pair.endpoint->traits().wake_fd, bell, sizeof bell, MSG_DONTWAIT), 1);
  EXPECT_FALSE(readable(*pair.endpoint)) << "one bell for one sleep";

  pair.endpoint->disarm();
  ASSERT_EQ(take(*pair.endpoint).size(), 2u);
  EXPECT_TRUE(pair.endpoint->arm());
  send_one(*pair.switch_end, 100, 4);
  EXPECT_TRUE(readable(*pair.endpoint)) << "the next sleep is rung for anew";
  pair.endpoint->disarm();
  EXPECT_FALSE(readable(*pair.endpoint));
}

TEST(LocalPort, ASenderWithoutRoomIsWokenWhenThereIsSome) {
  LocalPair pair;
  pair.switch_end->disarm();
  const OutFrame out(2048 - 30, 1);
  while (pair.switch_end->room() > 0) ASSERT_TRUE(pair.switch_end->send(out.frame));
  pair.switch_end->flush();
  EXPECT_TRUE(pair.switch_end->arm());
  EXPECT_FALSE(readable(*pair.switch_end));
  EXPECT_EQ(take(*pair.endpoint, 1).size(), 1u);
  EXPECT_TRUE(readable(*pair.switch_end));
  pair.switch_end->disarm();
  EXPECT_EQ(pair.switch_end->room(), 1u);
}

TEST(LocalPort, RoomThatCameBeforeTheSleepForbidsIt) {
  LocalPair pair;
  const OutFrame out(2048 - 30, 1);
  while (pair.switch_end->room() > 0) ASSERT_TRUE(pair.switch_end->send(out.frame));
  pair.switch_end->flush();
  EXPECT_EQ(take(*pair.endpoint, 1).size(), 1u);
  EXPECT_FALSE(pair.switch_end->arm());
}

TEST(LocalPort, OneWhoDidNotWantToSendIsNotWokenForRoom) {
  LocalPair pair;
  pair.switch_end->disarm();
  send_one(*pair.switch_end, 100, 1);
  EXPECT_TRUE(pair.switch_end->arm());
  EXPECT_EQ(take(*pair.endpoint).size(), 1u);
  EXPECT_FALSE(readable(*pair.switch_end));
}

TEST(LocalPort, CarrierFollowsTheClaimant) {
  HeapPool pool(4, 2048), endpoint_pool(4, 2048);
  auto port = must(LocalPort::create({"slot0", 65536, 2048}, pool));
  EXPECT_FALSE(port->carrier()) << "not claimed";
  EXPECT_EQ(port->room(), 0u);
  EXPECT_TRUE(take(*port).empty());
  EXPECT_TRUE(port->arm());
  const LocalPortFds fds = must(port->claim());
  EXPECT_FALSE(port->carrier()) << "claimed, not attached yet";
  auto endpoint = must(LocalPort::attach(copy_of(fds), "endpoint", endpoint_pool));
  EXPECT_TRUE(port->carrier());
  EXPECT_TRUE(endpoint->carrier());
  endpoint.reset();
  EXPECT_FALSE(port->carrier()) << "it left";
  EXPECT_FALSE(port->broken());
}

TEST(LocalPort, TheEndpointLosesCarrierWithTheSwitch) {
  LocalPair pair;
  EXPECT_TRUE(pair.endpoint->carrier());
  pair.switch_end.reset();
  EXPECT_FALSE(pair.endpoint->carrier());
  const OutFrame out(100, 1);
  pair.endpoint->send(out.frame);
  pair.endpoint->flush();  // the doorbell has no other end: no signal, no error
  pair.endpoint->disarm();
}

TEST(LocalPort, ComingAndGoingWakesASleepingSwitch) {
  HeapPool pool(4, 2048), endpoint_pool(4, 2048);
  auto port = must(LocalPort::create({"slot0", 65536, 2048}, pool));
  LocalPortFds fds = must(port->claim());
  EXPECT_TRUE(port->arm());
  auto endpoint = must(LocalPort::attach(std::move(fds), "endpoint", endpoint_pool));
  EXPECT_TRUE(readable(*port));
  port->disarm();
  EXPECT_TRUE(port->arm());
  EXPECT_FALSE(readable(*port));
  endpoint.reset();
  EXPECT_TRUE(readable(*port));
}

TEST(LocalPort, ANewClaimStartsAnewAndTheFormerClaimantReachesNobody) {
  LocalPair pair;
  const int wake_fd = pair.switch_end->traits().wake_fd;
  send_one(*pair.endpoint, 100, 1);
  send_one(*pair.switch_end, 100, 2);
  LocalPortFds fds = must(pair.switch_end->claim());
  HeapPool pool(4, 2048);
  auto newcomer = must(LocalPort::attach(std::move(fds), "newcomer", pool));
  EXPECT_EQ(pair.switch_end->traits().wake_fd, wake_fd);
  EXPECT_TRUE(pair.switch_end->carrier());
  EXPECT_FALSE(pair.endpoint->carrier());
  EXPECT_TRUE(take(*pair.switch_end).empty());
  EXPECT_TRUE(take(*newcomer).empty());

  pair.switch_end->disarm();
  EXPECT_TRUE(pair.switch_end->arm());
  send_one(*pair.endpoint, 100, 3);
  EXPECT_TRUE(take(*pair.switch_end).empty());
  EXPECT_FALSE(readable(*pair.switch_end));
  const OutFrame out(100, 4);
  ASSERT_TRUE(newcomer->send(out.frame));
  newcomer->flush();
  EXPECT_TRUE(readable(*pair.switch_end));
  EXPECT_EQ(take(*pair.switch_end), Frames{out.wire()});
}

TEST(LocalPort, AClaimInTwoStepsHandsTheFormerMemoryBack) {
  LocalPair pair;
  LocalPortFds fds;
  auto segment = must(pair.switch_end->make_segment(fds));
  auto former = pair.switch_end->install(std::move(segment));
  EXPECT_NE(former, nullptr);
  EXPECT_TRUE(pair.endpoint->carrier()) << "the former memory is still mapped";
  former.reset();
  EXPECT_FALSE(pair.endpoint->carrier());
  EXPECT_NE(pair.switch_end->install(nullptr), nullptr);
  EXPECT_FALSE(pair.switch_end->carrier());
  EXPECT_EQ(pair.switch_end->install(nullptr), nullptr);
}

// A regular file in the doorbell's place is what epoll refuses.
TEST(LocalPort, AClaimWhoseDoorbellCannotBeHeardIsBroken) {
  LocalPair pair;
  LocalPortFds fds;
  auto segment = must(pair.switch_end->make_segment(fds));
  const Fd file(::memfd_create("deaf", MFD_CLOEXEC));
  ASSERT_GE(::dup2(file.get(), segment->doorbell()), 0);
  pair.switch_end->install(std::move(segment));
  auto endpoint = must(LocalPort::attach(std::move(fds), "endpoint", pair.endpoint_pool));
  EXPECT_TRUE(pair.switch_end->broken());
  EXPECT_FALSE(pair.switch_end->carrier());
  EXPECT_EQ(pair.switch_end->counters().drops.get(Drop::kBrokenRing), 1u);
  EXPECT_TRUE(pair.switch_end->claim());
  EXPECT_FALSE(pair.switch_end->broken());
}

TEST(LocalPort, BadSizesAreRefusedWithTheReason) {
  HeapPool pool(1, 70000);
  const auto error = [&](std::uint32_t ring, std::uint32_t frame) {
    const auto port = LocalPort::create({"slot0", ring, frame}, pool);
    return port ? std::string() : port.error().message;
  };
  EXPECT_EQ(error(65536, 2048), "");
  EXPECT_NE(error(65536 + 8, 2048).find("power of two"), std::string::npos);
  EXPECT_NE(error(32768, 2048).find("ring of 32768"), std::string::npos);
  EXPECT_NE(error(kMaxLocalRing * 2, 2048).find("ring of"), std::string::npos);
  EXPECT_NE(error(65536, 93).find("longest frame of 93"), std::string::npos);
  EXPECT_NE(error(1u << 20, kMaxLocalFrame + 1).find("longest frame"), std::string::npos);
  EXPECT_NE(error(65536, 40000).find("no two frames"), std::string::npos);
  HeapPool small(1, 2047);
  EXPECT_FALSE(LocalPort::create({"slot0", 65536, 2048}, small));
  LocalPair pair;
  EXPECT_FALSE(LocalPort::attach(copy_of(pair.fds), "endpoint", small));
}

// What an endpoint is handed may be anything.
class LocalAttach : public ::testing::Test {
 protected:
  std::string error(int memory, int doorbell) {
    HeapPool pool(1, 70000);
    const auto port = LocalPort::attach({Fd(::dup(memory)), Fd(::dup(doorbell))}, "x", pool);
    return port ? std::string() : port.error().message;
  }
  std::string error(int memory) { return error(memory, pair_.fds.doorbell.get()); }

  // A copy of the real memory's header in a memfd of another size or other seals.
  Fd forge(off_t size, int seals) {
    Fd memory(::memfd_create("forged", MFD_ALLOW_SEALING));
    std::vector<std::byte> header(4096);
    EXPECT_EQ(::pread(pair_.fds.memory.get(), header.data(), header.size(), 0), 4096);
    EXPECT_EQ(::pwrite(memory.get(), header.data(), header.size(), 0), 4096);
    EXPECT_EQ(::ftruncate(memory.get(), size), 0);
    EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
    return memory;
  }

  LocalPair pair_;
  const off_t size_ = static_cast<off_t>(kLocalRings + 2 * 65536);
};

TEST_F(LocalAttach, TakesWhatIsRight) {
  EXPECT_EQ(error(pair_.fds.memory.get()), "");
  EXPECT_EQ(error(forge(size_, F_SEAL_SHRINK | F_SEAL_GROW).get()), "");
}

TEST_F(LocalAttach, RefusesMemoryThatCouldBeCut) {
  EXPECT_NE(error(forge(size_, 0).get()).find("not sealed"), std::string::npos);
  EXPECT_NE(error(forge(size_, F_SEAL_GROW).get()).find("not sealed"), std::string::npos);
}

TEST_F(LocalAttach, RefusesAnotherSize) {
  EXPECT_NE(error(forge(size_ - 4096, F_SEAL_SHRINK | F_SEAL_GROW).get()).find("its header says"),
            std::string::npos);
  EXPECT_NE(error(forge(8, F_SEAL_SHRINK | F_SEAL_GROW).get()).find("too short"),
            std::string::npos);
}

TEST_F(LocalAttach, RefusesAnotherLayout) {
  for (const std::size_t at : {0u, 8u, 12u, 16u}) {
    const Fd memory = forge(size_, F_SEAL_SHRINK | F_SEAL_GROW);
    const std::uint32_t strange = 0x00FFFFFF;
    ASSERT_EQ(::pwrite(memory.get(), &strange, 4, static_cast<off_t>(at)), 4);
    EXPECT_NE(error(memory.get()), "") << "byte " << at;
  }
}

TEST_F(LocalAttach, RefusesDescriptorsOfAnotherKind) {
  const Fd null(::open("/dev/null", O_RDWR));
  EXPECT_NE(error(null.get()).find("no memfd"), std::string::npos);
  EXPECT_NE(error(-1), "");
  EXPECT_NE(error(pair_.fds.memory.get(), null.get()).find("doorbell"), std::string::npos);
  EXPECT_NE(error(pair_.fds.doorbell.get(), pair_.fds.memory.get()), "");
}

TEST(LocalPort, ThePeerCannotCutTheMemory) {
  LocalPair pair;
  EXPECT_NE(::ftruncate(pair.fds.memory.get(), 0), 0);
  EXPECT_NE(::ftruncate(pair.fds.memory.get(), 1 << 30), 0);
}

}  // namespace
}  // namespace mtl::phy
