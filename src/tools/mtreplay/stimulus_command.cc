#include "tools/mtreplay/stimulus_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tools/mtreplay/packet_port.h"
#include "tools/printable.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;

constexpr Duration kHurry = std::chrono::seconds(2);  ///< to end, when it hangs or we must
constexpr std::size_t kLongestLine = std::size_t{16} << 20;

Error fault(const std::string& what) {
  return Error{"--stimulus-cmd: " + what};
}

}  // namespace

Result<StimulusCommand> StimulusCommand::start(const std::string& command,
                                               const Interrupt& interrupt, Duration patience) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fault(std::strerror(errno));
  }
  Fd ours{ends[0]};
  const Fd theirs{ends[1]};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, theirs.get(), STDOUT_FILENO);
  // A group of its own, so a terminal's Ctrl-C is ours alone; and signals as usual, though we wait
  // for them otherwise.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string shell = "/bin/sh";
  std::string option = "-c";
  std::string text = command;
  const std::array<char*, 4> arguments{shell.data(), option.data(), text.data(), nullptr};
  pid_t pid = -1;
  const int failed =
      ::posix_spawn(&pid, shell.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return fault(fmt::format("cannot be started: {}", std::strerror(failed)));
  return StimulusCommand{std::move(ours), pid, interrupt, patience};
}

StimulusCommand::StimulusCommand(StimulusCommand&& other) noexcept
    : channel_(std::move(other.channel_)),
      pid_(std::exchange(other.pid_, -1)),
      interrupt_(other.interrupt_),
      patience_(other.patience_),
      hangs_(other.hangs_),
      unread_(std::move(other.unread_)) {}

StimulusCommand::~StimulusCommand() {
  if (pid_ < 0) return;
  channel_.reset();
  const bool hurry = hangs_ || interrupted();
  const Time end = steady_now() + (hurry ? std::min(patience_, kHurry) : patience_);
  siginfo_t ended{};
  const auto id = static_cast<id_t>(pid_);
  while (::waitid(P_PID, id, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0 &&
         steady_now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Before it is reaped the number of its group cannot be another one's.
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<json::object> StimulusCommand::ask(const json::object& line) {
  if (auto sent = send_line(json::serialize(line) + "\n"); !sent) return sent.error();
  auto answer = read_line();
  if (!answer) return answer.error();
  json::error_code error;
  json::value value = json::parse(*answer, error);
  if (error || !value.is_object()) {
    return fault(fmt::format("answered no JSON object: {}", printable(answer->substr(0, 200))));
  }
  return std::move(value.get_object());
}

/// Waits until the channel is ready for `events`; false: `end` has come.
bool StimulusCommand::wait(short events, Time end) const {
  for (;;) {
    const Duration left = end - steady_now();
    if (left <= Duration{0}) return false;
    std::array<pollfd, 1> ready{{{channel_.get(), events, 0}}};
    if (interrupt_->wait(left, ready)) return false;
    if (ready[0].revents != 0) return true;
  }
}

/// An answer that nothing was asked for would be taken for that of this line.
Result<void> StimulusCommand::send_line(const std::string& text) {
  std::array<char, 4096> piece{};
  const ssize_t more = ::recv(channel_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (more > 0) unread_.append(piece.data(), static_cast<std::size_t>(more));
  if (!unread_.empty()) {
    return fault(fmt::format("answered more than one line: {}", printable(unread_.substr(0, 200))));
  }
  const Time end = steady_now() + patience_;
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n =
        ::send(channel_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait(POLLOUT, end)) return gave_up("does not read its input");
    } else if (errno != EINTR) {
      return fault("has ended");
    }
  }
  return {};
}

/// Nothing has come of a wait.
Error StimulusCommand::gave_up(const char* why) {
  if (interrupted()) return fault("interrupted");
  hangs_ = true;
  return fault(fmt::format("{} ({:g} s; --patience)", why,
                           std::chrono::duration<double>(patience_).count()));
}

Result<std::string> StimulusCommand::read_line() {
  const Time end = steady_now() + patience_;
  for (;;) {
    if (const std::size_t at = unread_.find('\n'); at != std::string::npos) {
      std::string line = unread_.substr(0, at);
      unread_.erase(0, at + 1);
      return line;
    }
    if (unread_.size() > kLongestLine) return fault("answers without end");
    if (!wait(POLLIN, end)) return gave_up("did not answer in time");
    std::array<char, 65536> piece{};
    const ssize_t n = ::recv(channel_.get(), piece.data(), piece.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fault("ended without an answer; what it says on standard error tells why");
    unread_.append(piece.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace mtl::tools
