#include "phy/memif/memif_hub.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace mtl::phy {
namespace {

using std::chrono::milliseconds;

// Keys of the epoll: the timer, then the listeners, then connections.
constexpr std::uint64_t kTimerKey = 0;
constexpr std::uint64_t kFirstListener = 1;
constexpr std::uint64_t kFirstConnection = std::uint64_t{1} << 32;
/// Of one call of process(), so that nobody holds up the control thread.
constexpr std::size_t kEvents = 64;
constexpr int kAccepts = 16;
constexpr int kMessages = 32;
/// More than this comes with no message of memif's; what is beyond is closed by the kernel.
constexpr std::size_t kMaxDescriptors = 4;
constexpr milliseconds kAcceptRest{1000};

std::string error_text(int number) {
  return std::generic_category().message(number);
}

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

/// `socket` is 1 to kMaxMemifSocket bytes.
Address address_of(const std::string& socket) {
  Address out;
  out.name.sun_family = AF_UNIX;
  std::memcpy(out.name.sun_path, socket.data(), std::min(socket.size(), kMaxMemifSocket));
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket.size());
  if (socket.front() == '@') {
    out.name.sun_path[0] = '\0';
  } else {
    ++out.length;
  }
  return out;
}

/// The descriptors that came with a message.
std::vector<Fd> descriptors(msghdr& message) {
  std::vector<Fd> out;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
  return out;
}

bool send_message(int socket, const MemifSession::Out& out) {
  MemifBytes bytes = out.bytes;
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (out.fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &out.fd, sizeof out.fd);
  }
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool hung_up(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

std::string place(const MemifEndConfig& config) {
  return config.socket + " (id " + std::to_string(config.id) + ")";
}

}  // namespace

struct MemifHub::Connection {
  std::uint64_t key = 0;
  Fd socket;
  MemifSession session;
  End* end = nullptr;  ///< nullptr: a stranger
  std::optional<std::size_t> listener;
  std::unique_ptr<MemifSegment> segment;   ///< client: until it is handed over
  Clock::time_point deadline{};            ///< to be up by
  std::optional<Clock::time_point> up_at;  ///< ready, and rests
};

MemifHub::MemifHub(std::string name, Listen listen, Unlisten unlisten, EventfdRinger ringer)
    : name_(std::move(name)),
      listen_(std::move(listen)),
      unlisten_(std::move(unlisten)),
      ringer_(std::move(ringer)),
      next_key_(kFirstConnection) {}

Result<std::unique_ptr<MemifHub>> MemifHub::open(std::string name, Listen listen,
                                                 Unlisten unlisten) {
  auto ringer = EventfdRinger::open();
  if (!ringer) return Error{"memif: " + ringer.error().message};
  std::unique_ptr<MemifHub> hub(
      new MemifHub(std::move(name), std::move(listen), std::move(unlisten), std::move(*ringer)));
  hub->poll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  hub->timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!hub->poll_ || !hub->timer_ || !hub->watch(hub->timer_.get(), kTimerKey)) {
    return Error{"memif: cannot make what watches its sockets: " + error_text(errno) +
                 "; raise the limit of open files"};
  }
  return hub;
}

MemifHub::~MemifHub() {
  for (auto& [key, connection] : connections_) {
    connection->session.disconnect("The process ends");
    send_all(*connection);
  }
}

bool MemifHub::watch(int fd, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  return ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// --- ends ---

Result<std::size_t> MemifHub::listener_for(const std::string& socket) {
  std::size_t place = listeners_.size();
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (listeners_[i].socket == socket) return i;
    if (listeners_[i].socket.empty()) place = i;
  }
  auto fd = listen_(socket);
  if (!fd) return fd.error();
  if (place == listeners_.size()) listeners_.emplace_back();
  listeners_[place] = {socket, std::move(*fd), {}, {}};
  if (install_) listeners_[place].paused_until = Clock::now();  // watched by run_due()
  return place;
}

Result<std::size_t> MemifHub::add(const MemifEndConfig& config, const MemifPort& port) {
  auto end = std::make_unique<End>();
  end->config = config;
  end->port = &port;
  end->offer.secret = config.secret;
  end->offer.max_region_mib = config.max_region_mib;
  if (config.role == MemifRole::kServer) {
    for (const auto& other : ends_) {
      if (other != nullptr && other->listener && other->config.socket == config.socket &&
          other->config.id == config.id) {
        return Error{"memif: two ports serve " + place(config) + "; give each an id of its own"};
      }
    }
    const auto listener = listener_for(config.socket);
    if (!listener) return listener.error();
    end->listener = *listener;
  }
  auto place = std::find(ends_.begin(), ends_.end(), nullptr);
  if (place == ends_.end()) place = ends_.emplace(ends_.end());
  *place = std::move(end);
  if (install_) run_due();
  return static_cast<std::size_t>(place - ends_.begin());
}

void MemifHub::remove(std::size_t number) {
  const std::unique_ptr<End> end = std::move(ends_[number]);
  if (Connection* const connection = end->connection; connection != nullptr) {
    connection->session.disconnect("The port is removed");
    send_all(*connection);
    connections_.erase(connection->key);
  }
  if (!end->listener) return;
  const bool needed = std::any_of(ends_.begin(), ends_.end(), [&](const auto& other) {
    return other != nullptr && other->listener == end->listener;
  });
  if (!needed) stop_listening(*end->listener);
}

void MemifHub::stop_listening(std::size_t number) {
  std::erase_if(connections_, [&](const auto& entry) {
    return entry.second->listener == number;  // strangers: no end has the socket
  });
  if (unlisten_) unlisten_(listeners_[number].socket);
  listeners_[number] = {};  // closing the only descriptor ends its watch, too
}

void MemifHub::start(Install install) {
  install_ = std::move(install);
  for (Listener& listener : listeners_) listener.paused_until = Clock::now();
  run_due();
}

std::string MemifHub::fault(std::size_t number) const {
  const End& end = *ends_[number];
  if (end.connection != nullptr && end.connection->session.up()) {
    const MemifBreak broken = end.port->broken();
    return broken == MemifBreak::kNone ? "" : "the peer is given up: " + std::string(text(broken));
  }
  if (!end.listener) return end.fault;
  std::string out = "waits for a client on " + place(end.config);
  if (!end.fault.empty()) out += "; " + end.fault;
  const std::string& refused = listeners_[*end.listener].refused;
  if (!refused.empty()) out += "; " + refused;
  return out;
}

void MemifHub::sample() {
  for (const auto& end : ends_) {
    if (end == nullptr) continue;
    const MemifBreak broken = end->port->broken();
    if (broken == MemifBreak::kNone || end->connection == nullptr) continue;
    if (!end->connection->session.up()) continue;
    const std::string why = std::string("the peer was given up: ") + text(broken);
    end->connection->session.disconnect(text(broken));
    send_all(*end->connection);
    close(*end->connection, why);
    end->not_before = Clock::now() + kRestAfterBreak;
  }
  arm_timer();
}

// --- connections ---

MemifHub::Connection& MemifHub::add_connection(Fd socket, MemifSession session) {
  auto made = std::unique_ptr<Connection>(
      new Connection{next_key_++, std::move(socket), std::move(session), nullptr, {}, {}, {}, {}});
  Connection& connection = *made;
  connection.deadline = Clock::now() + kPatience;
  connections_.emplace(connection.key, std::move(made));
  return connection;
}

void MemifHub::accept_some(std::size_t number) {
  Listener& listener = listeners_[number];
  for (int i = 0; i < kAccepts; ++i) {
    Fd socket(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // Out of descriptors or memory: to look again at once would only burn the CPU.
      listener.refused = "a client cannot be let in: " + error_text(errno);
      listener.paused_until = Clock::now() + kAcceptRest;
      ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, listener.fd.get(), nullptr);
      return;
    }
    drop_stranger(number);
    Connection& made = add_connection(std::move(socket), MemifSession::server(name_, {}));
    made.listener = number;
    made.session =
        MemifSession::server(name_, [this, &made](std::uint32_t id) { return look_up(made, id); });
    if (!watch(made.socket.get(), made.key)) {
      close(made, "it cannot be watched");
      continue;
    }
    send_all(made);
  }
}

/// Makes room for one more: whoever says nothing shall not keep others out.
void MemifHub::drop_stranger(std::size_t listener) {
  std::size_t strangers = 0;
  Connection* oldest = nullptr;
  for (const auto& [key, connection] : connections_) {
    if (connection->listener != listener || connection->end != nullptr) continue;
    ++strangers;
    if (oldest == nullptr) oldest = connection.get();
  }
  if (strangers >= kMaxStrangers) close(*oldest, "too many clients that ask for nothing");
}

const MemifSession::Offer* MemifHub::look_up(Connection& connection, std::uint32_t id) {
  for (const auto& end : ends_) {
    if (end == nullptr || !end->listener || end->listener != connection.listener) continue;
    if (end->config.id != id) continue;
    // The word of the former one's end may stand behind this one's coming.
    if (end->connection != nullptr && hung_up(end->connection->socket.get())) {
      close(*end->connection, "the client left");
    }
    end->offer.taken = end->connection != nullptr;
    return &end->offer;
  }
  return nullptr;
}

void MemifHub::connect(End& end) {
  const auto again = [&](const std::string& fault) {
    end.fault = fault;
    end.not_before = Clock::now() + end.retry;
    end.retry = std::min(end.retry * 2, kLastRetry);
  };
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return again("cannot make a socket: " + error_text(errno));
  const Address address = address_of(end.config.socket);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.length) !=
      0) {
    return again("no server at " + end.config.socket + " (" + error_text(errno) +
                 "); it is tried again and again");
  }
  end.fault = "speaks with the server at " + place(end.config);
  Connection& made = add_connection(std::move(socket), MemifSession::client(name_, {}, {}));
  made.end = &end;
  end.connection = &made;
  const MemifEndConfig& config = end.config;
  made.session = MemifSession::client(
      name_, {config.id, config.secret, config.log2_ring},
      [&made, bytes = config.buffer_bytes](std::uint8_t log2) -> Result<MemifLayout> {
        auto segment = MemifSegment::create(log2, bytes);
        if (!segment) return segment.error();
        made.segment = std::move(*segment);
        return made.segment->layout();
      });
  if (!watch(made.socket.get(), made.key)) close(made, "the connection cannot be watched");
}

/// One message from the peer into the session. False: none is there.
bool MemifHub::read_message(Connection& connection) {
  std::array<std::byte, kMemifMessage + 1> bytes;
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(connection.socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // Before anything else: a message without a byte may bring descriptors, too.
  std::vector<Fd> fds;
  if (n >= 0) fds = descriptors(message);
  if (n <= 0) {
    // Its last words may have ended the session already.
    if (!connection.session.ended()) close(connection, "the peer left");
    return false;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) fds.resize(kMaxDescriptors);
  connection.session.receive({bytes.data(), static_cast<std::size_t>(n)}, std::move(fds));
  return true;
}

void MemifHub::pump(Connection& connection) {
  const std::uint64_t key = connection.key;
  for (int i = 0; i < kMessages; ++i) {
    if (!read_message(connection)) return;
    MemifSession& session = connection.session;
    if (session.id() && connection.end == nullptr && !session.ended()) {
      for (const auto& end : ends_) {
        if (end == nullptr || end->listener != connection.listener) continue;
        if (end->config.id != *session.id()) continue;
        connection.end = end.get();
        end->connection = &connection;
      }
    }
    if (session.ready() && !connection.up_at) {
      connection.up_at = std::max(Clock::now(), connection.end->not_before);
      if (*connection.up_at <= Clock::now()) bring_up(connection);
    }
    send_all(connection);
    if (session.ended()) close(connection, session.why());
    if (!connections_.contains(key)) return;
  }
}

void MemifHub::send_all(Connection& connection) {
  while (const auto out = connection.session.next()) {
    // One message at most waits for each that has come: a peer that takes none reads nothing.
    if (!send_message(connection.socket.get(), *out)) {
      connection.session.disconnect("A message cannot be sent");
      return;
    }
  }
}

void MemifHub::bring_up(Connection& connection) {
  MemifSession& session = connection.session;
  End& end = *connection.end;
  if (end.config.role == MemifRole::kServer) {
    auto segment = MemifSegment::attach(session.take_layout(), ringer_);
    if (!segment) return session.disconnect(segment.error().message);
    connection.segment = std::move(*segment);
  }
  // Before the peer hears of it: from then on it may write.
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (ends_[i].get() == &end) install_(i, std::move(connection.segment));
  }
  session.connected();
  end.retry = kFirstRetry;
  end.fault.clear();
  if (end.listener) listeners_[*end.listener].refused.clear();
}

void MemifHub::close(Connection& connection, const std::string& why) {
  if (End* const end = connection.end; end != nullptr) {
    for (std::size_t i = 0; connection.session.was_up() && i < ends_.size(); ++i) {
      if (ends_[i].get() == end) install_(i, nullptr);
    }
    end->connection = nullptr;
    end->fault =
        end->listener ? why : why + "; the server at " + place(end->config) + " is tried again";
    end->not_before = Clock::now() + (end->listener ? kRest : end->retry);
    if (!end->listener) end->retry = std::min(end->retry * 2, kLastRetry);
  } else if (connection.listener) {
    listeners_[*connection.listener].refused = why;
  }
  connections_.erase(connection.key);
}

// --- time ---

void MemifHub::run_due() {
  const auto now = Clock::now();
  std::vector<Connection*> late;
  for (const auto& [key, connection] : connections_) {
    if (connection->session.up()) continue;
    if (connection->up_at ? *connection->up_at <= now : connection->deadline <= now) {
      late.push_back(connection.get());
    }
  }
  for (Connection* connection : late) {
    if (connection->up_at) {
      bring_up(*connection);
    } else {
      connection->session.disconnect("Too slow");
    }
    send_all(*connection);
    if (connection->session.ended()) close(*connection, connection->session.why());
  }
  for (const auto& end : ends_) {
    if (end == nullptr || end->listener || end->connection != nullptr) continue;
    if (end->not_before <= now) connect(*end);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Listener& listener = listeners_[i];
    if (!listener.paused_until || *listener.paused_until > now) continue;
    if (watch(listener.fd.get(), kFirstListener + i)) {
      listener.paused_until.reset();
    } else {
      listener.refused = "no client can be let in: " + error_text(errno);
      listener.paused_until = now + kAcceptRest;
    }
  }
  arm_timer();
}

void MemifHub::arm_timer() {
  auto next = Clock::time_point::max();
  for (const auto& [key, connection] : connections_) {
    if (connection->session.up()) continue;
    next = std::min(next, connection->up_at.value_or(connection->deadline));
  }
  for (const auto& end : ends_) {
    if (end == nullptr || end->listener || end->connection != nullptr) continue;
    next = std::min(next, end->not_before);
  }
  for (const Listener& listener : listeners_) {
    if (listener.paused_until) next = std::min(next, *listener.paused_until);
  }
  itimerspec when{};
  if (next != Clock::time_point::max()) {
    // Not 0, which would stop it.
    const auto since = std::max(next.time_since_epoch(), Clock::duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = static_cast<long>((since - seconds).count());
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void MemifHub::process() {
  std::array<epoll_event, kEvents> events;
  const int n = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key == kTimerKey) {
      std::uint64_t count = 0;
      (void)!::read(timer_.get(), &count, sizeof count);
    } else if (key < kFirstConnection) {
      accept_some(key - kFirstListener);
    } else if (const auto found = connections_.find(key); found != connections_.end()) {
      pump(*found->second);
    }
  }
  run_due();
}

}  // namespace mtl::phy
