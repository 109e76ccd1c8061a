#include "tools/mtperf/serve.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <utility>

namespace mtl::mtperf {
namespace {

using transport::Completion;
using transport::ConnectionEvent;
using transport::Received;
using transport::Work;

constexpr Duration kNap = std::chrono::milliseconds(10);
constexpr std::uint32_t kAnswer = 0;  ///< lower half of the context of an answer
constexpr std::uint32_t kMostConnections = 64;

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
  settings.messages = kMessages;
  settings.connections = kMostConnections;
  return settings;
}

transport::Limits transport_limits() {
  transport::Limits limits;
  limits.operations = 4 * kMaxDepth;
  // Each connection has all its receives posted, and one for its control messages.
  limits.receives = kMostConnections * (kMessages + 1);
  limits.message_records = kMostConnections * kMessages;
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

void Server::run(const Stops& stops) {
  while (stops() == 0 && (options_.clients == 0 || gone_ < options_.clients)) {
    idler_.turn(kNap);
    take_events();
    take_received();
    take_completions();
    for (auto& [id, session] : sessions_) work(*session);
    gone_ += std::erase_if(sessions_, [&](auto& entry) { return settle(*entry.second); });
    look_at_slot();
  }
}

/// While its slot is gone no client comes, and nothing else would say why.
void Server::look_at_slot() {
  if (endpoint_.slot_fault() == slot_fault_) return;
  const bool back = endpoint_.slot_fault().empty();
  if (back || slot_fault_.empty()) {
    fmt::print(stderr, "mtperf: the slot {}\n",
               back ? "is back" : "was lost, and is waited for: " + endpoint_.slot_fault());
  }
  slot_fault_ = endpoint_.slot_fault();
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
    Initiator* const whose =
        session.reader != nullptr ? session.reader.get() : session.initiator.get();
    if (whose != nullptr) {
      whose->completed(completion);
    } else if (static_cast<std::uint32_t>(completion.context) == kAnswer && session.answers != 0) {
      --session.answers;
    }
  }
}

void Server::take_received() {
  Received received;
  while (endpoint_.operations()->next_received(received, endpoint_.now())) {
    if (received.kind != Received::Kind::kMessage) continue;  // an imm is asked of nobody
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
    const bool counts = session.job.operations != 0 && !said.cut_short;
    if (session.initiator != nullptr && !counts) session.initiator->stop();
  }
}

/// Memory for the job, under a key that only this connection may use. False: that cannot be.
bool Server::give_memory(Session& session, const Job& job) {
  if (job.mode == Mode::kSend) return true;
  const transport::Connection* connection =
      endpoint_.operations()->transport().find(session.connection);
  if (connection == nullptr) return false;
  session.window.assign(job.window(), std::byte{});
  fill_readable(job, session.window);
  const auto key = endpoint_.operations()->give(
      {.memory = session.window,
       .rights = transport::kRightRead | transport::kRightWrite | transport::kRightAtomic,
       .only = connection->id()});
  if (key) session.key = *key;
  return static_cast<bool>(key);
}

/// All that the job needs. False: that cannot be; nothing is left.
bool Server::prepare(Session& session, const Control& asked) {
  const Job& job = asked.job;
  // What is left of the job before is still written to.
  const bool busy = session.working || session.sink != nullptr || session.answers != 0;
  if (busy || server_memory(job) > options_.memory) return false;
  try {
    if (job.latency) session.answer.assign(job.size, std::byte{});
    if (job.both) {
      const Target target{session.connection, asked.key, session.id};
      Until until;
      if (asked.operations != 0) until.operations = asked.operations;
      session.initiator =
          std::make_unique<Initiator>(endpoint_, job, target, until, job.seed + kServerSeed);
    }
    // Last: from here on something refers to it.
    if (job.mode == Mode::kSend) {
      session.sink =
          std::make_unique<MessageSink>(endpoint_, session.connection, job, session.id, job.seed);
    } else if (!give_memory(session, job)) {
      session.initiator.reset();
      return false;
    }
  } catch (const std::bad_alloc&) {
    session.initiator.reset();
    session.window = {};
    return false;
  }
  return true;
}

void Server::begin(Session& session, const Control& asked) {
  Control reply{.kind = Control::Kind::kRefused, .job = asked.job, .limit = options_.memory};
  if (prepare(session, asked)) {
    session.job = asked;
    session.working = true;
    session.stopping = session.answer_due = session.altered = false;
    session.turn = 1;
    reply.kind = Control::Kind::kReady;
    reply.key = session.key;
  }
  session.reply = reply;
}

/// To and fro: what came goes back.
void Server::answer(Session& session) {
  const Job& job = session.job.job;
  session.answer.back() = std::byte{session.turn};
  Work work{.kind = Work::Kind::kSend,
            .context = std::uint64_t{session.id} << 32 | kAnswer,
            .from = session.answer};
  if (job.mode == Mode::kWrite) {
    work.kind = Work::Kind::kPut;
    work.key = session.job.key;
  }
  session.answer_due = endpoint_.operations()->post(session.connection, work, endpoint_.now()) !=
                       transport::Posted::kTaken;
  if (session.answer_due) return;
  ++session.answers;
  session.turn = static_cast<std::uint8_t>(session.turn % 255 + 1);
}

void Server::work(Session& session) {
  session.channel.work();
  if (session.sink != nullptr) session.sink->work();
  if (session.reply && session.channel.tell(*session.reply)) session.reply.reset();
  if (!session.working || session.reply) return;
  const Job& job = session.job.job;
  if (session.initiator != nullptr) session.initiator->step();
  const bool came = job.latency && job.mode == Mode::kWrite &&
                    last_byte(std::span(session.window).first(job.size)) == session.turn;
  if (session.answer_due || came) answer(session);
  const bool over = session.initiator == nullptr || session.initiator->over();
  if (!session.stopping || !over || session.answers != 0) return;
  if (read_back(session)) tell_result(session);
}

/// Whether nothing of what it put is to be compared any more.
bool Server::read_back(Session& session) {
  const Job& job = session.job.job;
  if (session.initiator == nullptr || !job.verify || job.mode != Mode::kWrite) return true;
  if (session.reader == nullptr) {
    const Target target{session.connection, session.job.key, session.id};
    session.reader =
        std::make_unique<Initiator>(endpoint_, back_of(job), target, Until{1, {}}, job.seed);
  }
  session.reader->step();
  if (!session.reader->over()) return false;
  session.altered =
      session.reader->failed() || !session.initiator->matches(session.reader->memory());
  return true;
}

void Server::tell_result(Session& session) {
  Control result{.kind = Control::Kind::kResult, .job = session.job.job};
  if (const Initiator* const own = session.initiator.get(); own != nullptr) {
    result.operations = own->operations();
    result.altered = own->altered() + (session.altered || own->failed() ? 1 : 0);
    if (own->operations() != 0) {
      result.took_ns = static_cast<std::uint64_t>(Duration{own->last() - own->first()}.count());
    }
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
  session.reader.reset();
}

/// True: nothing of the session is left anywhere.
bool Server::settle(Session& session) {
  if (session.ended && session.working) end_job(session);
  if (session.sink != nullptr && session.sink->drained() && !session.working) session.sink.reset();
  return session.ended && session.sink == nullptr && session.channel.closed();
}

}  // namespace mtl::mtperf
