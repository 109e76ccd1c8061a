#include "control/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "control/socket_path.h"
#include "fake_daemon.h"

namespace mtl::control {
namespace {

using ::testing::HasSubstr;

ListeningSocket listen(const std::string& path) {
  auto opened = ListeningSocket::open(path);
  if (!opened) {
    ADD_FAILURE() << opened.error().message;
    std::abort();
  }
  return std::move(*opened);
}

/// A peer that takes one connection, reads what comes first, and sends `answer`.
class Impostor {
 public:
  Impostor() : listening_(listen(directory_ / "node.sock")), fd_(listening_.release()) {}
  const std::string& path() const { return listening_.path(); }
  /// After the client has connected: takes the connection.
  void accept() { connection_.reset(::accept(fd_.get(), nullptr, nullptr)); }
  void send(const std::string& bytes) {
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()),
              ::send(connection_.get(), bytes.data(), bytes.size(), 0));
  }
  /// Sends each byte with a descriptor of its own.
  void send_with_fds(const std::string& bytes) {
    for (const char byte : bytes) {
      iovec piece{const_cast<char*>(&byte), 1};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = fd_.get();
      std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
      ASSERT_EQ(1, ::sendmsg(connection_.get(), &message, 0));
    }
  }
  void close() { connection_.reset(); }

 private:
  ScratchDirectory directory_;
  ListeningSocket listening_;
  Fd fd_;
  Fd connection_;
};

Result<mtlink::control::Response> ask(Client& client,
                                      Client::Milliseconds timeout = Client::kDefaultTimeout) {
  mtlink::control::Request request;
  request.mutable_get_node();
  return client.call(request, timeout);
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST(ControlClient, SaysThatNoDaemonIsThere) {
  const ScratchDirectory directory;
  const auto client = Client::connect(directory / "none.sock");
  ASSERT_FALSE(client);
  EXPECT_EQ("no mtswitchd at " + directory / "none.sock" + ": start it, or name its socket",
            client.error().message);
}

TEST(ControlClient, SaysThatTheSocketIsStale) {
  const ScratchDirectory directory;
  auto listening = ListeningSocket::open(directory / "node.sock");
  ASSERT_TRUE(listening);
  ::close(listening->release());  // as kill -9 does: the path stays
  const auto client = Client::connect(directory / "node.sock");
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("nobody listens on"));
}

TEST(ControlClient, RefusesAPathThatIsTooLong) {
  const auto client =
      Client::connect(std::string(108, 'x'));  // unix(7): 108 bytes with the final 0
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("1 to 107 bytes"));
}

TEST(ControlClient, GivesUpAndClosesWhenNoAnswerComes) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  const auto response = ask(*client, std::chrono::milliseconds(1));
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("did not answer in time"));
  // A late answer must never be taken for that of another call.
  EXPECT_EQ(-1, client->fd());
  EXPECT_THAT(ask(*client).error().message, HasSubstr("connect again"));
}

TEST(ControlClient, SeesTheDaemonGo) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  impostor.accept();
  EXPECT_FALSE(client->gone());
  impostor.close();
  pollfd entry{client->fd(), 0, 0};
  EXPECT_EQ(1, ::poll(&entry, 1, 1000 * static_cast<int>(kPatience.count())));
  EXPECT_NE(0, entry.revents & POLLHUP);
  EXPECT_TRUE(client->gone());
  EXPECT_THAT(ask(*client).error().message, HasSubstr("ended the connection"));
}

TEST(ControlClient, RefusesAnAnswerThatIsTooLong) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  impostor.accept();
  impostor.send("\xff\xff\xff\xff");
  EXPECT_THAT(ask(*client).error().message, HasSubstr("4294967295 bytes, at most 16777216"));
}

TEST(ControlClient, RefusesAnAnswerThatCannotBeRead) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  impostor.accept();
  impostor.send(std::string("\0\0\0\x02\xff\xff", 6));
  EXPECT_THAT(ask(*client).error().message, HasSubstr("cannot be read"));
}

std::string grant_answer() {
  mtlink::control::Response response;
  response.mutable_slot()->set_node(101);
  return *frame(response, kMaxResponse);
}

TEST(ControlClient, RefusesAGrantWithoutDescriptors) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  impostor.accept();
  impostor.send(grant_answer());
  EXPECT_THAT(client->claim_slot({}).error().message, HasSubstr("0 descriptors instead of 2"));
}

TEST(ControlClient, ClosesDescriptorsThatItDidNotAskFor) {
  Impostor impostor;
  auto client = Client::connect(impostor.path());
  ASSERT_TRUE(client);
  impostor.accept();
  const auto before = open_descriptors();
  impostor.send_with_fds(grant_answer());
  EXPECT_THAT(client->claim_slot({}).error().message, HasSubstr("3 descriptors instead of 2"));
  EXPECT_EQ(before - 1, open_descriptors());  // the connection is closed, nothing else is left
}

}  // namespace
}  // namespace mtl::control
