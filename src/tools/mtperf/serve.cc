#include "tools/mtperf/serve.h"

#include <algorithm>
#include <atomic>

namespace mtl::mtperf {
namespace {

using transport::Completion;
using transport::ConnectionEvent;
using transport::Received;
using transport::Work;

constexpr Duration kNap = std::chrono::milliseconds(10);

/// What the peer has stored last in memory that it was given.
std::uint8_t last_byte(std::span<std::byte> window) {
  return std::to_integer<std::uint8_t>(
      std::atomic_ref<std::byte>(window.back()).load(std::memory_order_acquire));
}

}  // namespace

transport::Settings transport_settings(std::uint16_t mtu) {
  transport::Settings settings;
  settings.mtu = mtu;
  settings.window = 10;
  settings.send_window = 10;
  settings.reads = 1024;
  settings.request_packets = 4096;
  settings.response_packets = 4096;
  settings.held_packets = 1024;
  settings.messages = 256;
  return settings;
}

transport::Limits transport_limits() {
  transport::Limits limits;
  limits.operations = 4 * kMaxDepth;
  limits.receives = 4 * kMaxDepth;
  limits.message_records = 64 * 256;
  return limits;
}

void Idler::turn(Duration longest) {
  const Time now = endpoint_.clock().now();
  if (endpoint_.progress()) {
    busy_at_ = now;
  } else if (!poll_ && now - busy_at_ > kSpin) {
    endpoint_.wait(longest);
  }
}

void Idler::linger(const std::function<void()>& take) {
  const Time end = endpoint_.clock().now() + kLinger;
  while (endpoint_.operations()->transport().in_use() != 0 && endpoint_.clock().now() < end) {
    turn(std::chrono::milliseconds(1));
    take();
  }
}

Result<std::unique_ptr<Server>> Server::open(endpoint::Endpoint& endpoint,
                                             const ServeOptions& options) {
  const auto added =
      endpoint.operations()->transport().add_endpoint(kServerEndpoint, {.accepts = true});
  if (!added) return added.error();
  return std::unique_ptr<Server>(new Server(endpoint, options));
}

/// What was given and posted is of memory that goes with the sessions.
Server::~Server() {
  for (auto& [id, session] : sessions_) {
    endpoint_.operations()->transport().close(session->connection, endpoint_.now());
    if (session->key != transport::Key{}) endpoint_.operations()->withdraw(session->key);
    if (session->sink != nullptr) session->sink->close();
    session->channel.close();
  }
  idler_.linger([this] {
    take_events();
    take_completions();
  });
  take_received();
}

std::uint64_t Server::run(const Stops& stops) {
  while (stops() == 0 && (options_.clients == 0 || gone_ < options_.clients)) {
    idler_.turn(kNap);
    take_events();
    take_received();
    take_completions();
    for (auto& [id, session] : sessions_) {
      if (session->working) work(*session);
    }
    gone_ += std::erase_if(sessions_, [&](auto& entry) { return settle(*entry.second); });
  }
  return gone_;
}

void Server::take_events() {
  ConnectionEvent event;
  while (endpoint_.operations()->transport().next_event(event)) {
    if (event.what == ConnectionEvent::What::kUp) {
      const std::uint32_t id = next_id_++;
      sessions_[id] = std::make_unique<Session>(endpoint_, event.connection, id);
      continue;
    }
    for (auto& [id, session] : sessions_) {
      if (session->connection == event.connection) session->ended = true;
    }
  }
}

void Server::take_completions() {
  Completion completion;
  while (endpoint_.operations()->next_completion(completion)) {
    const auto found = sessions_.find(static_cast<std::uint32_t>(completion.context >> 32));
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    if (session.initiator != nullptr) {
      session.initiator->completed(completion);
    } else if (session.answers != 0) {
      --session.answers;
    }
  }
}

void Server::take_received() {
  Received received;
  while (endpoint_.operations()->next_received(received, endpoint_.now())) {
    const auto found = sessions_.find(static_cast<std::uint32_t>(received.context >> 32));
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    if (static_cast<std::uint32_t>(received.context) == Channel::kContext) {
      if (const auto said = session.channel.received(received)) control(session, *said);
    } else if (session.sink != nullptr && session.sink->received(received) &&
               session.job.job.latency) {
      answer(session);
    }
  }
}

void Server::control(Session& session, const Control& said) {
  if (said.kind == Control::Kind::kJob) {
    begin(session, said);
  } else if (said.kind == Control::Kind::kStop && session.working) {
    session.stopping = true;
    if (session.initiator != nullptr) session.initiator->stop();
  }
}

/// Memory for the job, under a key that only this connection may use. False: that cannot be.
bool Server::give_memory(Session& session, const Job& job) {
  const transport::Connection* connection =
      endpoint_.operations()->transport().find(session.connection);
  // What is left of the job before is still written to.
  const bool busy = session.working || session.sink != nullptr || session.answers != 0;
  if (connection == nullptr || busy || job.window() > options_.memory) return false;
  session.window.assign(job.window(), std::byte{});
  const auto key = endpoint_.operations()->give(
      {.memory = session.window,
       .rights = transport::kRightRead | transport::kRightWrite | transport::kRightAtomic,
       .only = connection->id()});
  if (key) session.key = *key;
  return static_cast<bool>(key);
}

void Server::begin(Session& session, const Control& asked) {
  const Job& job = asked.job;
  Control reply{.kind = Control::Kind::kRefused, .job = job, .limit = options_.memory};
  if (!give_memory(session, job)) {
    session.channel.tell(reply);
    return;
  }
  session.job = asked;
  session.working = true;
  session.stopping = false;
  session.turn = 1;
  session.answer.assign(job.size, std::byte{});
  fill_readable(job, session.window);
  if (job.mode == Mode::kSend) {
    session.sink =
        std::make_unique<MessageSink>(endpoint_, session.connection, job, session.id, job.seed);
  }
  reply.kind = Control::Kind::kReady;
  reply.key = session.key;
  session.channel.tell(reply);
  if (!job.both) return;
  const Target target{session.connection, asked.key, session.id};
  session.initiator =
      std::make_unique<Initiator>(endpoint_, job, target, Until{}, job.seed + kServerSeed);
}

/// To and fro: what came goes back.
void Server::answer(Session& session) {
  const Job& job = session.job.job;
  session.answer.back() = std::byte{session.turn};
  Work work{.kind = Work::Kind::kSend,
            .context = std::uint64_t{session.id} << 32,
            .from = session.answer};
  if (job.mode == Mode::kWrite) {
    work.kind = Work::Kind::kPut;
    work.key = session.job.key;
  }
  if (endpoint_.operations()->post(session.connection, work, endpoint_.now()) ==
      transport::Posted::kTaken) {
    ++session.answers;
  }
}

void Server::work(Session& session) {
  const Job& job = session.job.job;
  if (session.initiator != nullptr) session.initiator->step();
  if (job.latency && job.mode == Mode::kWrite &&
      last_byte(std::span(session.window).first(job.size)) == session.turn) {
    answer(session);
    session.turn = static_cast<std::uint8_t>(session.turn % 255 + 1);
  }
  const bool over = session.initiator == nullptr || session.initiator->over();
  if (!session.stopping || !over || session.answers != 0) return;
  Control result{.kind = Control::Kind::kResult, .job = job};
  if (session.initiator != nullptr) {
    result.operations = session.initiator->operations();
    result.altered = session.initiator->altered();
  }
  if (session.sink != nullptr) {
    result.received = session.sink->count();
    result.altered += session.sink->altered();
  }
  if (session.channel.tell(result)) end_job(session);
}

void Server::end_job(Session& session) {
  session.working = false;
  if (session.key != transport::Key{}) endpoint_.operations()->withdraw(session.key);
  session.key = {};
  if (session.sink != nullptr) session.sink->close();
  take_received();  // what was taken back
  session.initiator.reset();
}

/// True: nothing of the session is left anywhere.
bool Server::settle(Session& session) {
  if (session.ended && session.working) end_job(session);
  if (session.sink != nullptr && session.sink->drained() && !session.working) session.sink.reset();
  return session.ended && session.sink == nullptr && session.channel.closed();
}

}  // namespace mtl::mtperf
