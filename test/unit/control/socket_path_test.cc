#include "control/socket_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>

#include "control/socket_address.h"
#include "fake_daemon.h"

namespace mtl::control {
namespace {

using ::testing::HasSubstr;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(0, ::lstat(path.c_str(), &status)) << path;
  return status.st_mode;
}

TEST(ListeningSocket, IsOwnerOnlyWhateverTheUmask) {
  const ScratchDirectory directory;
  const mode_t before = ::umask(0);
  const auto socket = ListeningSocket::open(directory / "node.sock");
  ::umask(before);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_EQ(mode_t{S_IFSOCK | 0600}, mode_of(directory / "node.sock"));
}

TEST(ListeningSocket, MakesItsDirectoryForItsOwnerOnly) {
  const ScratchDirectory directory;
  const mode_t before = ::umask(0);
  const auto socket = ListeningSocket::open(directory / "mtlink/node.sock");
  ::umask(before);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_EQ(mode_t{S_IFDIR | 0700}, mode_of(directory / "mtlink"));
}

TEST(ListeningSocket, NamesADirectoryThatItCannotMake) {
  const ScratchDirectory directory;
  const auto socket = ListeningSocket::open(directory / "a/b/node.sock");
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message, HasSubstr("cannot make the directory " + directory / "a/b"));
  EXPECT_THAT(socket.error().message, HasSubstr("No such file or directory; make it"));
}

TEST(ListeningSocket, RefusesADirectoryThatEveryoneMayWrite) {
  const ScratchDirectory directory;
  ASSERT_EQ(0, ::chmod(directory.path().c_str(), 0777));
  const auto socket = ListeningSocket::open(directory / "node.sock");
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message, HasSubstr("everyone may write"));
  ASSERT_EQ(0,
            ::chmod(directory.path().c_str(), 01777));  // as /tmp: nobody can replace what is ours
  EXPECT_TRUE(ListeningSocket::open(directory / "node.sock"));
}

TEST(ListeningSocket, OfAnotherKindSpeaksOfItself) {
  const ScratchDirectory directory;
  const SocketKind kind{SOCK_SEQPACKET, "memif socket", "memif.socket", "somebody is there"};
  const std::string path = directory / "memif.sock";
  const auto socket = ListeningSocket::open(path, kind);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_EQ(mode_t{S_IFSOCK | 0600}, mode_of(path));
  const auto second = ListeningSocket::open(path, kind);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "somebody is there: it answers on " + path +
                                        "; stop it, or set memif.socket to another path");
  const auto nowhere = ListeningSocket::open(directory / "a/b/memif.sock", kind);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("for the memif socket"));
}

/// As kill -9 does: the socket's end is closed, its path stays.
void leave_stale_socket(const std::string& path) {
  const auto address = *socket_address(path);
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(0, ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  ASSERT_EQ(0, ::listen(fd.get(), 1));
}

TEST(ListeningSocket, ReplacesAStaleSocket) {
  const ScratchDirectory directory;
  leave_stale_socket(directory / "node.sock");
  ASSERT_EQ(mode_t{S_IFSOCK}, mode_of(directory / "node.sock") & S_IFMT);
  const auto socket = ListeningSocket::open(directory / "node.sock");
  EXPECT_TRUE(socket) << socket.error().message;
}

TEST(ListeningSocket, LeavesAnotherSocketAtItsPathAlone) {
  const ScratchDirectory directory;
  auto first = ListeningSocket::open(directory / "node.sock");
  ASSERT_TRUE(first);
  ASSERT_EQ(0, ::unlink((directory / "node.sock").c_str()));
  const auto second = ListeningSocket::open(directory / "node.sock");
  ASSERT_TRUE(second) << second.error().message;
  first->remove();
  EXPECT_TRUE(std::filesystem::exists(directory / "node.sock"));
}

TEST(ListeningSocket, RefusesASecondDaemon) {
  const ScratchDirectory directory;
  const auto first = ListeningSocket::open(directory / "node.sock");
  ASSERT_TRUE(first);
  const auto second = ListeningSocket::open(directory / "node.sock");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another mtswitchd runs there"));
  EXPECT_THAT(second.error().message, HasSubstr(directory / "node.sock"));
  EXPECT_TRUE(std::filesystem::exists(directory / "node.sock"));
}

TEST(ListeningSocket, RefusesASecondDaemonWhoseBacklogIsFull) {
  const ScratchDirectory directory;
  const auto first = ListeningSocket::open(directory / "node.sock");
  ASSERT_TRUE(first);
  // Nobody accepts; each refused attempt leaves a closed connection in the backlog.
  for (int i = 0; i < 100; ++i) {
    const auto second = ListeningSocket::open(directory / "node.sock");
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("another mtswitchd runs there"));
  }
}

TEST(ListeningSocket, LeavesAFileThatIsNoSocketAlone) {
  const ScratchDirectory directory;
  std::ofstream(directory / "node.sock") << "precious";
  const auto socket = ListeningSocket::open(directory / "node.sock");
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message, HasSubstr("is no socket"));
  EXPECT_EQ(mode_t{S_IFREG}, mode_of(directory / "node.sock") & S_IFMT);
}

TEST(ListeningSocket, RefusesAPathThatTheKernelCannotTake) {
  const auto socket = ListeningSocket::open("/tmp/" + std::string(103, 'x'));
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message, HasSubstr("1 to 107 bytes"));
}

TEST(ListeningSocket, RemovesItsPathAtItsEnd) {
  const ScratchDirectory directory;
  {
    const auto socket = ListeningSocket::open(directory / "node.sock");
    ASSERT_TRUE(socket);
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "node.sock"));
}

TEST(ListeningSocket, OfManyThatStartAtOnceOneWins) {
  for (int round = 0; round < 20; ++round) {
    const ScratchDirectory directory;
    leave_stale_socket(directory / "node.sock");  // all of them want to remove it
    std::vector<std::future<Result<ListeningSocket>>> starts;
    for (int i = 0; i < 4; ++i)
      starts.push_back(std::async(std::launch::async,
                                  [&] { return ListeningSocket::open(directory / "node.sock"); }));
    std::vector<Result<ListeningSocket>> results;
    for (auto& start : starts) results.push_back(start.get());
    EXPECT_EQ(1, std::count_if(results.begin(), results.end(),
                               [](const auto& result) { return bool(result); }));
  }
}

}  // namespace
}  // namespace mtl::control
