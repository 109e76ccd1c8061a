#include "switch/sd_notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace mtl::switchd {
namespace {

/// A datagram socket in the abstract name space, as a service manager has it.
class Manager {
 public:
  Manager() : name_("mtlink-sd-notify-test-" + std::to_string(getpid())) {
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    bound_ = bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size())) == 0;
  }
  ~Manager() {
    close(fd_);
    unsetenv("NOTIFY_SOCKET");
  }
  bool bound() const { return bound_; }
  std::string address() const { return "@" + name_; }
  std::string received() {
    std::array<char, 256> bytes{};
    const ssize_t n = recv(fd_, bytes.data(), bytes.size(), 0);
    return n < 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(n));
  }

 private:
  std::string name_;
  int fd_;
  bool bound_ = false;
};

TEST(SdNotify, TellsTheManagerThatTheEnvironmentNames) {
  Manager manager;
  ASSERT_TRUE(manager.bound());
  setenv("NOTIFY_SOCKET", manager.address().c_str(), 1);
  EXPECT_TRUE(sd_notify("READY=1"));
  EXPECT_EQ(manager.received(), "READY=1");
}

TEST(SdNotify, DoesNothingWithoutOne) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(sd_notify("READY=1"));
}

TEST(SdNotify, SaysWhatIsWrongWithTheSocket) {
  for (const std::string& name : {std::string("relative"), "/" + std::string(200, 'x'),
                                  std::string("/nonexistent/notify.sock")}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    const auto result = sd_notify("READY=1");
    ASSERT_FALSE(result) << name;
    EXPECT_NE(result.error().message.find(name), std::string::npos);
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace mtl::switchd
