#include "capture/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "make_segment.h"

namespace mtl::capture {
namespace {

std::string refused(const Result<std::unique_ptr<Segment>>& made) {
  return made ? "made" : made.error().message;
}

TEST(CaptureSegment, BothSidesSeeOneMemory) {
  Fd fd;
  const auto ours = test::make_segment(3, Segment::kMinRing, fd);
  ASSERT_TRUE(ours) << ours.error().message;
  const auto theirs = Segment::attach(fd);
  ASSERT_TRUE(theirs) << theirs.error().message;
  EXPECT_EQ((*theirs)->rings(), 3U);
  EXPECT_EQ((*theirs)->ring_bytes(), Segment::kMinRing);
  for (std::size_t ring = 0; ring < 3; ++ring) {
    (*ours)->head(ring) = ring + 1;
    (*theirs)->tail(ring) = ring + 11;
    (*ours)->missed(ring, 500) = ring + 21;
    (*ours)->ring(ring)[Segment::kMinRing - 1] = static_cast<std::byte>(ring + 31);
  }
  for (std::size_t ring = 0; ring < 3; ++ring) {
    EXPECT_EQ((*theirs)->head(ring), ring + 1);
    EXPECT_EQ((*ours)->tail(ring), ring + 11);
    EXPECT_EQ((*theirs)->missed(ring, 500), ring + 21);
    EXPECT_EQ((*theirs)->ring(ring)[Segment::kMinRing - 1], static_cast<std::byte>(ring + 31));
  }
}

TEST(CaptureSegment, InterfacesAreKeptUntilThereIsNoPlace) {
  Fd fd;
  const auto ours = test::make_segment(1, Segment::kMinRing, fd);
  const auto theirs = Segment::attach(fd);
  ASSERT_TRUE(ours && theirs);
  Interface interface;
  interface.name = std::string(64, 'n');
  interface.about = std::string(500, 'a');
  interface.port = PortId{255};
  interface.vlan = VlanId{4094};
  interface.mac = {std::byte{2}, {}, {}, {}, {}, std::byte{9}};
  EXPECT_EQ((*theirs)->interfaces(), 0U);
  EXPECT_EQ((*ours)->add_interface(interface), 0);
  ASSERT_EQ((*theirs)->interfaces(), 1U);
  const Interface seen = (*theirs)->interface(0);
  EXPECT_EQ(seen.name, interface.name);
  EXPECT_EQ(seen.about, std::string(160, 'a'));
  EXPECT_EQ(seen.port, interface.port);
  EXPECT_EQ(seen.vlan, interface.vlan);
  EXPECT_EQ(seen.mac, interface.mac);
  for (std::size_t i = 1; i < Segment::kMaxInterfaces; ++i) {
    ASSERT_TRUE((*ours)->add_interface({}));
  }
  EXPECT_EQ((*theirs)->left_out(), 0U);
  EXPECT_FALSE((*ours)->add_interface({}));
  EXPECT_EQ((*theirs)->left_out(), 1U);
  EXPECT_EQ((*theirs)->interfaces(), Segment::kMaxInterfaces);
}

TEST(CaptureSegment, SizesThatCannotBeAreRefused) {
  Fd fd;
  EXPECT_NE(refused(test::make_segment(1, Segment::kMinRing / 2, fd)).find("131072 bytes"),
            std::string::npos);
  EXPECT_NE(refused(test::make_segment(1, Segment::kMinRing + 64, fd)), "made");
  EXPECT_NE(refused(test::make_segment(2, Segment::kMaxBytes, fd)), "made");
  EXPECT_NE(refused(test::make_segment(0, Segment::kMinRing, fd)), "made");
}

// Nobody can cut the memory under the workers.
TEST(CaptureSegment, ALimitOfFilesIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto made = Segment::allocate(1, Segment::kMinRing);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("ulimit -f"), std::string::npos) << made.error().message;
}

TEST(CaptureSegment, NobodyCanChangeItsSize) {
  Fd fd;
  const auto ours = test::make_segment(1, Segment::kMinRing, fd);
  ASSERT_TRUE(ours);
  EXPECT_NE(::ftruncate(fd.get(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
}

constexpr std::uint64_t kRing = Segment::kMinRing;

// What a peer hands over for its rings: the daemon must not end with SIGBUS by it, nor pay for it.
TEST(CaptureSegment, MemoryThatIsNotSafeToUseIsRefused) {
  const std::string remedy = "use mtctl and mtswitchd of one version";
  auto good = Segment::allocate(1, kRing);
  ASSERT_TRUE(good);
  struct stat status {};
  ASSERT_EQ(::fstat(good->get(), &status), 0);
  const auto refused_with = [&](const Fd& memory, const std::string& why) {
    const std::string said = refused(Segment::adopt(memory, 1, kRing));
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find(remedy), std::string::npos) << said;
  };
  refused_with(Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "no memory of a capture");
  refused_with(Fd(), "no memory of a capture");
  const auto made = [&](int seals, off_t size, bool there) {
    Fd memory(::memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(memory.get(), size), 0);
    if (there) {
      EXPECT_EQ(::fallocate(memory.get(), 0, 0, size), 0);
    }
    EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
    return memory;
  };
  const int both = F_SEAL_SHRINK | F_SEAL_GROW;
  refused_with(made(F_SEAL_GROW, status.st_size, true), "no memory of a capture");
  refused_with(made(F_SEAL_SHRINK, status.st_size, true), "no memory of a capture");
  refused_with(made(both, status.st_size + 4096, true), "bytes instead of");
  refused_with(made(both, 4096, true), "bytes instead of");
  refused_with(made(both, status.st_size, false), "only 0 bytes of");
  EXPECT_NE(refused(Segment::adopt(made(both | F_SEAL_WRITE, status.st_size, true), 1, kRing)),
            "made");
  EXPECT_EQ(refused(Segment::adopt(made(both, status.st_size, true), 1, kRing)), "made");
  EXPECT_EQ(refused(Segment::adopt(*good, 1, kRing)), "made");
  EXPECT_NE(refused(Segment::adopt(*good, 2, kRing)), "made");
}

// Only what stood there before is gone: a peer cannot make the daemon begin in the middle.
TEST(CaptureSegment, TheDaemonBeginsAnew) {
  Fd fd;
  const auto former = test::make_segment(1, kRing, fd);
  ASSERT_TRUE(former);
  (*former)->head(0) = 64;
  (*former)->tail(0) = 128;
  (*former)->missed(0, 3) = 7;
  ASSERT_TRUE((*former)->add_interface({}));
  const auto anew = Segment::adopt(fd, 1, kRing);
  ASSERT_TRUE(anew);
  EXPECT_EQ((*anew)->head(0), 0U);
  EXPECT_EQ((*anew)->tail(0), 0U);
  EXPECT_EQ((*anew)->missed(0, 3), 0U);
  EXPECT_EQ((*anew)->interfaces(), 0U);
}

// So that nothing waits long for the thread that does it.
TEST(CaptureSegment, PageTablesAreFilledInParts) {
  Fd fd;
  const auto segment = test::make_segment(2, std::uint64_t{1} << 23, fd);
  ASSERT_TRUE(segment);
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t parts = 1;
  while ((*segment)->populate()) ++parts;
  EXPECT_EQ(parts, (size + Segment::kPopulated - 1) / Segment::kPopulated);
  EXPECT_FALSE((*segment)->populate());
}

TEST(CaptureSegment, WhatTheDaemonDidNotWriteIsNotRead) {
  const Fd empty(::memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_NE(refused(Segment::attach(empty)).find("another layout"), std::string::npos);
  const auto unused = Segment::allocate(1, kRing);
  ASSERT_TRUE(unused);
  EXPECT_NE(refused(Segment::attach(*unused)).find("another layout"), std::string::npos);
}

// Bytes 8 to 15 are version and number of drop reasons, 16 to 23 the rings, 24 to 31 their bytes.
TEST(CaptureSegment, AHeaderThatDoesNotFitTheMemoryIsRefused) {
  for (const off_t at : {8, 12, 16, 24}) {
    Fd fd;
    const auto ours = test::make_segment(1, Segment::kMinRing, fd);
    ASSERT_TRUE(ours);
    std::uint32_t value = 0;
    ASSERT_EQ(::pread(fd.get(), &value, sizeof value, at), static_cast<ssize_t>(sizeof value));
    value *= 2;
    ASSERT_EQ(::pwrite(fd.get(), &value, sizeof value, at), static_cast<ssize_t>(sizeof value));
    EXPECT_NE(refused(Segment::attach(fd)), "made") << at;
  }
}

}  // namespace
}  // namespace mtl::capture
