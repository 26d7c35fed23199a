#include "relay/worker/worker_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "bpf/held_connection.h"
#include "event/origdst/original_destination.h"

namespace fairlead::relay {
namespace {

// While the worker is busy, sockets are polled after this many turns, or after this time.
constexpr unsigned kTurnsPerPoll = 4;
constexpr Duration kPollInterval = std::chrono::microseconds(500);
// Checks of the devices between two polls of the sockets while spinning.
constexpr unsigned kPendingChecks = 16;
// While spinning on its one active session, a worker polls all other sockets at this interval.
constexpr Duration kPollWhileReading = std::chrono::microseconds(10);
// How long peers have to take the last messages.
constexpr Duration kShutdownWait = std::chrono::seconds(2);

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Result<std::unique_ptr<WorkerThread>> WorkerThread::create(WorkerSettings settings,
                                                           OptionSource source,
                                                           const bpf::OptionProgram* program,
                                                           FramesOffer& frames_offer) {
  std::unique_ptr<event::EventLoop> loop = SMC_TRY(event::EventLoop::create());
  return std::unique_ptr<WorkerThread>(
      new WorkerThread(std::move(settings), std::move(loop), source, program, frames_offer));
}

WorkerThread::WorkerThread(WorkerSettings settings, std::unique_ptr<event::EventLoop> loop,
                           OptionSource source, const bpf::OptionProgram* program,
                           FramesOffer& frames_offer)
    : config_(*settings.config),
      index_(settings.index),
      workers_(settings.workers),
      seed_(settings.seed),
      stats_(std::make_unique<WorkerStats>()),
      loop_(std::move(loop)),
      network_(*loop_, source, program, config_.tcp, config::accepts_deferred(config_)),
      frames_offer_(frames_offer),
      spin_(config_.latency.spin, config_.latency.spin_share_max) {
  worker_ = std::make_unique<Worker>(std::move(settings), network_, *stats_);
  network_.set_memory_level(worker_->memory_level());  // before a client can connect
}

WorkerThread::~WorkerThread() {
  if (thread_.joinable()) {
    finish(event::EventLoop::now());
    thread_.join();
  }
}

Result<SocketAddress> WorkerThread::listen(const config::Listener& listener) {
  return enter(listener, SMC_TRY(open(listener)));
}

Result<SocketAddress> WorkerThread::enter(const config::Listener& listener,
                                          std::unique_ptr<event::Listener> opened) {
  const SocketAddress address = opened->address();
  entrances_.push_back({&listener, std::move(opened)});
  return address;
}

Result<SocketAddress> WorkerThread::listen(const config::Listener& listener,
                                           FileDescriptor parked) {
  if (holds(listener)) bpf::let_hold(parked.get());
  return enter(listener, SMC_TRY(event::Listener::adopt(*loop_, worker_->timers(),
                                                        std::move(parked), handlers_of(listener))));
}

// Elsewhere nothing keeps strangers from a listener that accepts without a cookie.
bool WorkerThread::holds(const config::Listener& listener) const {
  return worker_->redirected_by_programs() && listener.direction == Direction::kOutbound &&
         listener.mode == config::ListenerMode::kRedirect;
}

event::ListenerHandlers WorkerThread::handlers_of(const config::Listener& listener) {
  event::ListenerHandlers handlers;
  handlers.accepted = [this, &listener](std::unique_ptr<event::Stream> stream) {
    accepted(listener, std::move(stream));
  };
  handlers.failed = [this](int error) {
    stats_->accept_errors.add();
    if (stats_->accept_errors.get() % kRefusalsPerLine != 1) return;
    lines_.write(
        LogLevel::kWarn, "relay.worker", "accept_failed", network_.now(), [&](LogEvent& line) {
          line.field("what", to_string(system_error("accept", error)))
              .field("hint", "raise the descriptor limit (nofile), or lower limits.connections");
        });
  };
  return handlers;
}

Result<std::unique_ptr<event::Listener>> WorkerThread::open(const config::Listener& listener) {
  event::ListenerHandlers handlers = handlers_of(listener);
  if (listener.mode == config::ListenerMode::kTproxy)
    handlers.before_bind = event::allow_foreign_addresses;
  handlers.before_listen = [this, &listener](int fd) -> Result<void> {
    if (listener.direction == Direction::kInbound) return network_.prepare_peer_listener(fd);
    network_.prepare_application_listener(fd);
    if (holds(listener)) bpf::let_hold(fd);
    return {};
  };
  auto opened = SMC_TRY(
      event::Listener::open(*loop_, worker_->timers(), listener.listen, std::move(handlers)));
  if (listener.direction == Direction::kInbound)
    network_.peer_listener_listens(opened->descriptor());
  return opened;
}

void WorkerThread::reopen_for_peers() {
  for (Entrance& entrance : entrances_) {
    if (entrance.configured->direction != Direction::kInbound) continue;
    auto opened = open(*entrance.configured);
    if (!opened) {
      LogEvent(LogLevel::kWarn, "relay.worker", "not_reopened")
          .field("listener", entrance.configured->name)
          .field("what", to_string(opened.error()));
      continue;
    }
    entrance.listener->accept_rest();
    entrance.listener = std::move(*opened);
  }
  if (network_.frames())
    frames_offer_.repeat([this](bool offered) { return announce_frames(offered); });
}

WorkerThread::Entrance* WorkerThread::entrance_of(const config::Listener& listener) {
  for (Entrance& entrance : entrances_)
    if (entrance.configured == &listener) return &entrance;
  return nullptr;
}

void WorkerThread::accepted(const config::Listener& listener,
                            std::unique_ptr<event::Stream> stream) {
  choose_sizes();
  offer_frames();
  if (listener.mode == config::ListenerMode::kStatic)
    return worker_->accept(listener.direction, *listener.upstream, std::move(stream));
  Entrance* entrance = entrance_of(listener);
  SMC_ASSERT(entrance != nullptr, listener.name.size());
  const Result<event::OriginalDestination> destination =
      listener.mode == config::ListenerMode::kRedirect
          ? event::redirect_destination(stream->descriptor(), stream->peer_address(),
                                        entrance->listener->address().port(), entrance->translated)
          : event::tproxy_destination(stream->descriptor(), listener.listen);
  if (destination && destination->redirected) {
    stats_->redirected.add();
    // A silent end of this process would leave connect(2) waiting.
    if (listener.direction == Direction::kOutbound && bpf::is_held(stream->descriptor()))
      stream->reset_if_lost();
    return worker_->accept(listener.direction, destination->address, std::move(stream),
                           Arrival::kRedirected);
  }
  // A connection to our own listener would never end.
  stats_->refused[RefusedFor::kRedirect].add();
  stream->reset_on_close();
  lines_.write(LogLevel::kWarn, "relay.worker", "refused", network_.now(), [&](LogEvent& line) {
    line.field("reason", "redirect_missing")
        .field("listener", listener.name)
        .field("peer", to_string(stream->peer_address()))
        .field("hint", kNoDestinationHint);
  });
}

// Both sides of a connection agree on windows and segments while it is set up, and a client may
// send before it is accepted. So the choice applies only to future connections.
void WorkerThread::choose_sizes() {
  const unsigned level = worker_->memory_level();
  if (level == network_.memory_level()) return;
  network_.set_memory_level(level);
  for (const Entrance& entrance : entrances_)
    if (entrance.configured->direction == Direction::kOutbound)
      network_.prepare_application_listener(entrance.listener->descriptor());
    else
      network_.bound_peer_listener(entrance.listener->descriptor());
}

void WorkerThread::offer_frames() {
  if (!network_.frames()) return;
  frames_offer_.update([this](bool before) { return worker_->affords_frames(before); },
                       [this](bool offered) { return announce_frames(offered); });
}

bool WorkerThread::announce_frames(bool announce) {
  bool all = true;
  for (const Entrance& entrance : entrances_) {
    if (entrance.configured->direction != Direction::kInbound) continue;
    const Result<void> done =
        network_.announce_frames(entrance.listener->address().port(), announce);
    all = all && done;
    // Paced, because strangers decide how much memory their connections take.
    lines_.write(done ? LogLevel::kInfo : LogLevel::kWarn, "relay.worker", "frames_announced",
                 network_.now(), [&](LogEvent& line) {
                   line.field("listener", entrance.configured->name)
                       .field("announced", announce ? "yes" : "no");
                   if (!done) line.field("what", to_string(done.error()));
                 });
  }
  return all;
}

Result<void> WorkerThread::show_client_addresses(int map_fd) {
  SMC_TRY(network_.use_client_address_map(map_fd, index_, workers_, seed_));
  network_.set_client_address(ClientAddress::kShown);
  return {};
}

void WorkerThread::start() {
  loop_->set_watch_handler(&worker_->devices());
  worker_->devices().set_watcher(loop_.get());
  running_.store(true, std::memory_order_release);
  thread_ = std::thread([this] { run(); });
}

bool WorkerThread::post(std::function<void(Worker&)> task) {
  {
    const std::lock_guard lock(mailbox_mutex_);
    if (mailbox_.size() >= kMailboxMax) return false;
    mailbox_.push_back(std::move(task));
  }
  mailbox_full_.store(true, std::memory_order_release);
  loop_->wake();
  return true;
}

bool WorkerThread::set_external_option(bool attached) {
  return post([this, attached](Worker&) {
    network_.set_external_option(attached);
    if (attached) reopen_for_peers();
  });
}

bool WorkerThread::set_client_address_map(std::optional<int> map_fd) {
  return post([this, map_fd](Worker&) {
    network_.set_client_address(ClientAddress::kUnavailable);
    if (!map_fd) return;
    const Result<void> shown = show_client_addresses(*map_fd);
    if (!shown)
      LogEvent(LogLevel::kWarn, "relay.worker", "no_client_address")
          .field("what", to_string(shown.error()));
  });
}

void WorkerThread::start_drain() {
  post([](Worker& worker) { worker.start_drain(); });
}

void WorkerThread::finish(TimePoint deadline) {
  post([this, deadline](Worker& worker) {
    worker.start_drain();
    if (!end_.drain_deadline || deadline < *end_.drain_deadline) end_.drain_deadline = deadline;
  });
}

void WorkerThread::park(TimePoint deadline, std::function<void(Parked)> parked) {
  post([this, deadline, parked = std::move(parked)](Worker& worker) {
    neighbours_.parking.emplace(Parking{parked, {}});
    for (Entrance& entrance : entrances_) {
      const SocketAddress address = entrance.listener->address();
      // The next process may be of a version that does not know held connections.
      bpf::stop_holding(entrance.listener->descriptor());
      neighbours_.parking->listeners.push_back({address, entrance.listener->park()});
      neighbours_.parked_listeners.push_back(entrance.configured);
    }
    entrances_.clear();
    worker.start_parking(deadline);
  });
}

void WorkerThread::park_when_due() {
  if (!neighbours_.parking) return;
  std::optional<std::vector<ParkedConnection>> connections = worker_->park_when_due();
  if (!connections) return;
  Parked parked;
  parked.listeners = std::move(neighbours_.parking->listeners);
  for (ParkedConnection& connection : *connections) {
    ParkedSockets sockets;
    const auto leave = [](std::unique_ptr<event::Stream>& stream) {
      std::optional<event::ParkedStream> left;
      if (stream) left = static_cast<event::TcpStream&>(*stream).park();
      stream.reset();
      return left;
    };
    sockets.app = leave(connection.app);
    sockets.net = leave(connection.net);
    sockets.state = std::move(connection);
    sockets.worker = index_;
    parked.connections.push_back(std::move(sockets));
  }
  parked.ended = worker_->session_count();
  neighbours_.parking->parked(std::move(parked));
  neighbours_.parking.reset();
}

bool WorkerThread::unpark(Parked parked) {
  {
    const std::lock_guard lock(mailbox_mutex_);
    neighbours_.given_again = std::move(parked);
  }
  const bool posted = post([this](Worker& worker) {
    std::unique_lock lock(mailbox_mutex_);
    Parked again = std::exchange(neighbours_.given_again, {});
    lock.unlock();
    worker.start_drain();
    listen_again(std::move(again.listeners));
    for (ParkedSockets& sockets : again.connections) resume(std::move(sockets));
  });
  if (posted) return true;
  const std::lock_guard lock(mailbox_mutex_);
  neighbours_.given_again = {};
  return false;
}

void WorkerThread::listen_again(std::vector<ParkedListener> listeners) {
  for (ParkedListener& one : listeners) {
    const auto found = std::find_if(
        neighbours_.parked_listeners.begin(), neighbours_.parked_listeners.end(),
        [&](const config::Listener* configured) { return configured->listen == one.address; });
    if (found == neighbours_.parked_listeners.end()) continue;
    const Result<SocketAddress> listening = listen(**found, std::move(one.socket));
    if (listening)
      entrances_.back().copied = true;
    else
      LogEvent(LogLevel::kWarn, "relay.worker", "not_reopened")
          .field("listener", (*found)->name)
          .field("what", to_string(listening.error()));
  }
}

// Continues the connections that another process has parked.
void WorkerThread::resume_connections() {
  if (neighbours_.parked_at && index_ == 0) {
    const auto gap = event::EventLoop::now() - *neighbours_.parked_at;
    stats_->parked_nanoseconds.add(
        static_cast<std::uint64_t>(std::max<std::int64_t>(gap.count(), 0)));
  }
  for (ParkedSockets& sockets : std::exchange(neighbours_.taken_back, {}))
    resume(std::move(sockets));
}

void WorkerThread::resume(ParkedSockets sockets) {
  const auto arrive = [this](std::optional<event::ParkedStream>& parked,
                             std::unique_ptr<event::Stream>& stream) {
    if (!parked) return true;
    auto resumed = event::TcpStream::resume(*loop_, std::move(*parked));
    if (resumed) stream = std::move(*resumed);
    return resumed.has_value();
  };
  ParkedConnection& connection = sockets.state;
  const bool arrived = arrive(sockets.app, connection.app) && arrive(sockets.net, connection.net);
  if (!arrived && connection.app) connection.app->reset_on_close();
  if (arrived && worker_->take_back(std::move(connection)))
    stats_->taken_back.add();
  else
    stats_->taken_back_lost.add();
}

void WorkerThread::join() {
  if (thread_.joinable()) thread_.join();
}

void WorkerThread::run_mailbox() {
  if (!mailbox_full_.load(std::memory_order_acquire)) return;
  std::deque<std::function<void(Worker&)>> tasks;
  {
    const std::lock_guard lock(mailbox_mutex_);
    tasks.swap(mailbox_);
    mailbox_full_.store(false, std::memory_order_release);
  }
  for (std::function<void(Worker&)>& task : tasks) task(*worker_);
}

bool WorkerThread::drain_finished() {
  if (!end_.drain_deadline) return false;
  const TimePoint now = event::EventLoop::now();
  if (!end_.shutdown_deadline) {
    if (worker_->session_count() != 0 && now < *end_.drain_deadline) return false;
    // Otherwise a copy in the keeper would still listen.
    for (const Entrance& entrance : entrances_)
      if (entrance.copied) (void)::shutdown(entrance.listener->descriptor(), SHUT_RDWR);
    entrances_.clear();
    worker_->shut_down("the proxy is shutting down");
    end_.shutdown_deadline = now + kShutdownWait;
  }
  return worker_->shut_down_done() || now >= *end_.shutdown_deadline;
}

void WorkerThread::run() {
  pthread_setname_np(pthread_self(), ("fairlead-w" + std::to_string(index_)).c_str());
  unsigned turns = 0;
  polled_ = event::EventLoop::now();
  resume_connections();
  for (;;) {
    run_mailbox();
    const bool more = worker_->turn();
    park_when_due();
    if (drain_finished()) break;
    if (!more && !(worker_->expects_news() && spin())) sleep();
    const TimePoint now = event::EventLoop::now();
    if ((more && ++turns % kTurnsPerPoll == 0) || now - polled_ >= kPollInterval) poll_sockets(now);
  }
  // Closes the sockets of the last sessions now, not when the slowest worker is done.
  loop_->settle();
  running_.store(false, std::memory_order_release);
}

void WorkerThread::poll_sockets(TimePoint now) {
  loop_->poll();
  polled_ = now;
}

// True when there is something to do.
bool WorkerThread::spin() {
  const TimePoint begin = event::EventLoop::now();
  const Duration allowance = spin_.allowance(begin);
  if (allowance == Duration::zero()) return false;
  const std::uint64_t dispatched = loop_->dispatch_count();
  const bool single = worker_->single_active();
  TimePoint now = begin;
  while (now - begin < allowance) {
    // First yields the core to whoever can use it: usually the application that has just received
    // something.
    ::sched_yield();
    const TimePoint after = event::EventLoop::now();
    const bool hogged = spin_.yielded(after - now, after);
    now = after;
    // With several sessions, the sockets are polled first: their data then becomes one batch per
    // peer.
    bool hit = single && (worker_->devices().pending() || worker_->try_read());
    if (!hit && (!single || now - polled_ >= kPollWhileReading)) {
      poll_sockets(now);
      hit = loop_->dispatch_count() != dispatched;
    }
    for (unsigned i = 0; i < kPendingChecks && !hit; ++i) {
      hit = worker_->devices().pending();
      cpu_relax();
    }
    if (hit) {
      stats_->spin_hits.add();
      return true;
    }
    if (hogged) break;
  }
  spin_.miss(now - begin);
  stats_->spin_misses.add();
  stats_->spin_nanoseconds.add(static_cast<std::uint64_t>((now - begin).count()));
  return false;
}

void WorkerThread::sleep() {
  if (worker_->devices().arm()) {
    loop_->wait(
        earliest(worker_->next_deadline(), earliest(end_.drain_deadline, end_.shutdown_deadline)));
    polled_ = event::EventLoop::now();
  }
  worker_->devices().disarm();
}

}  // namespace fairlead::relay
