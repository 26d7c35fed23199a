#include "app/connection_keeping.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/linux/wait.h"
#include "base/log.h"
#include "bpf/client_address_slots.h"
#include "event/tcp_stream.h"

namespace fairlead {
namespace {

constexpr const char* kLogger = "hand_over";
// Interval between checks of connections whose applications have ended.
constexpr int kDeadLookMilliseconds = 20;
// Room for connections that begin between offer and parcel, besides an eighth of the present ones.
constexpr std::size_t kComingConnections = 64;

using Refusal = parking::KeeperRecord::Refusal;

// True if a listener of the previous process still uses the address.
bool is_busy(const SocketAddress& address) {
  if (address.port() == 0) return false;
  const auto socket = event::TcpStream::make_socket(address.family());
  if (!socket) return false;
  const int on = 1;
  (void)::setsockopt(socket->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(socket->get(), address.data(), address.size()) != 0 && errno == EADDRINUSE;
}

std::uint64_t milliseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

bool ConnectionKeeping::expects_parcel() const {
  return std::any_of(config_.listeners.begin(), config_.listeners.end(),
                     [](const config::Listener& one) { return is_busy(one.listen); });
}

void ConnectionKeeping::take_back() {
  if (config_.hand_over.socket.empty()) return;
  auto keeper = parking::ProxyKeeper::listen(config_.hand_over.socket);
  if (!keeper) {
    LogEvent(LogLevel::kWarn, kLogger, "no_keeper")
        .field("what", to_string(keeper.error()))
        .field("hint", "two proxies in one network namespace need hand_over.socket of their own");
    return;
  }
  keeper_ = std::move(*keeper);
  if (!expects_parcel()) return;
  const TimePoint deadline = event::EventLoop::now() + config_.hand_over.wait;
  auto parcel = keeper_->receive(deadline);
  if (!parcel || !*parcel) {
    LogEvent line(LogLevel::kWarn, kLogger, "nothing_taken_back");
    line.field("what", parcel ? "another process listens at our addresses, but no keeper holds "
                                "connections for us"
                              : to_string(parcel.error()));
    return;
  }
  descriptors_ = (*parcel)->descriptors.size();
  const Result<void> taken = take(std::move(**parcel));
  if (taken) return;
  LogEvent(LogLevel::kError, kLogger, "nothing_taken_back").field("what", to_string(taken.error()));
  keeper_->answer(
      taken.error().code == Errc::kUnsupported ? Refusal::kVersion : Refusal::kMalformed, 0);
}

Result<void> ConnectionKeeping::take(parking::Parcel parcel) {
  const std::vector<std::byte> bytes = SMC_TRY(parking::read_description(parcel));
  // A root process of the pod may act as the keeper. Descriptors other than TCP sockets stay with
  // the closer.
  for (const ForeignDescriptor& descriptor : parcel.descriptors)
    SMC_TRY(event::take_over_tcp(descriptor.get()));
  std::vector<FileDescriptor> descriptors;
  for (ForeignDescriptor& descriptor : parcel.descriptors)
    descriptors.push_back(descriptor.release());
  parked_ = SMC_TRY(parking::decode(bytes, std::move(descriptors)));
  return {};
}

std::vector<FileDescriptor> ConnectionKeeping::listeners_at(const SocketAddress& address) {
  std::vector<FileDescriptor> sockets;
  if (!parked_) return sockets;
  for (relay::ParkedListener& listener : parked_->listeners)
    if (listener.socket && listener.address == address)
      sockets.push_back(std::move(listener.socket));
  return sockets;
}

void ConnectionKeeping::give_to(const Workers& workers) {
  if (!parked_) return;
  std::vector<std::vector<relay::ParkedSockets>> shares(workers.size());
  std::size_t next = 0;
  for (relay::ParkedSockets& connection : parked_->connections) {
    // Each slot of the map of client addresses belongs to one worker.
    const std::optional<std::uint32_t> slot = connection.state.client_slot;
    const std::size_t worker =
        slot ? bpf::ClientAddressSlots::worker_of(*slot, workers.size()) : next++;
    shares[worker % workers.size()].push_back(std::move(connection));
  }
  for (std::size_t i = 0; i < workers.size(); ++i)
    workers[i]->take_back(std::move(shares[i]), parked_->parked_at, i == 0 ? parked_->ended : 0);
}

void ConnectionKeeping::confirm() {
  if (keeper_ && parked_) keeper_->answer(Refusal::kNone, descriptors_);
}

void ConnectionKeeping::start(std::function<void()> park_wanted) {
  if (!keeper_) return;
  if (parked_) {
    for (const relay::ParkedListener& listener : parked_->listeners)
      if (listener.socket)
        LogEvent(LogLevel::kWarn, kLogger, "listener_closed")
            .field("address", to_string(listener.address))
            .field("what", "the process before listened there, and this one is not to");
    if (parked_->refused)
      LogEvent(LogLevel::kError, kLogger, "connection_refused")
          .field("what", to_string(*parked_->refused));
    LogEvent(LogLevel::kInfo, kLogger, "taken_back")
        .field("connections", std::uint64_t{parked_->connections.size()})
        .field("ended", parked_->ended)
        .field("gap_ms", milliseconds(event::EventLoop::now() - parked_->parked_at))
        .field("from", parked_->proxy_version);
    parked_.reset();
  }
  const auto started = keeper_->start([this, park_wanted = std::move(park_wanted)] {
    asked_ = true;
    park_wanted();
  });
  if (!started)
    LogEvent(LogLevel::kWarn, kLogger, "no_keeper").field("what", to_string(started.error()));
}

// The applications of a pod that ends are gone. Their last bytes must be drained, because no
// process will take them back. Half-closed connections of living applications look the same.
relay::Worker::Parkable ConnectionKeeping::drain_the_dead(const Workers& workers) {
  const TimePoint deadline = event::EventLoop::now() + config_.drain.timeout;
  for (;;) {
    const relay::Worker::Parkable all = count(workers);
    if (asked_ || all.connections == 0 || all.live != 0 || event::EventLoop::now() >= deadline)
      return all;
    (void)wait_for_events({}, kDeadLookMilliseconds);
  }
}

Result<void> ConnectionKeeping::offer(const relay::Worker::Parkable& all, const Workers& workers) {
  const auto limits = keeper_->limits();
  if (!limits) return Error{Errc::kPeerGone, "no keeper"};
  // Applications may connect until the workers stop accepting.
  const std::size_t coming = all.connections / 8 + kComingConnections;
  const std::size_t least = 2 * all.connections + workers.size() * config_.listeners.size();
  if (least > limits->descriptors)
    return Error{Errc::kExhausted, parking::to_string(Refusal::kDescriptors)};
  const std::size_t offered = std::min<std::size_t>(least + 2 * coming, limits->descriptors);
  return keeper_->offer(static_cast<std::uint32_t>(offered),
                        event::EventLoop::now() + parking::kOfferWait);
}

relay::Worker::Parkable ConnectionKeeping::count(const Workers& workers) {
  {
    const std::lock_guard lock(collected_.mutex);
    collected_.counts.clear();
  }
  for (const auto& worker : workers)
    worker->post([this](relay::Worker& own) {
      const std::lock_guard lock(collected_.mutex);
      collected_.counts.push_back(own.parkable());
      collected_.changed.notify_all();
    });
  std::unique_lock lock(collected_.mutex);
  (void)collected_.changed.wait_for(lock, kParkWait,
                                    [&] { return collected_.counts.size() >= workers.size(); });
  relay::Worker::Parkable all;
  for (const relay::Worker::Parkable& one : collected_.counts) {
    all.connections += one.connections;
    all.live += one.live;
  }
  return all;
}

parking::Parked ConnectionKeeping::collect(std::size_t workers, TimePoint deadline) {
  parking::Parked all;
  all.proxy_version = FAIRLEAD_VERSION;
  std::unique_lock lock(collected_.mutex);
  (void)collected_.changed.wait_until(lock, deadline,
                                      [&] { return collected_.parked.size() >= workers; });
  collected_.over = true;
  for (relay::WorkerThread::Parked& part : collected_.parked) {
    for (relay::ParkedListener& listener : part.listeners)
      all.listeners.push_back(std::move(listener));
    for (relay::ParkedSockets& connection : part.connections)
      all.connections.push_back(std::move(connection));
    all.ended += part.ended;
  }
  return all;
}

parking::EncodedDescription ConnectionKeeping::take_from(const Workers& workers) {
  const TimePoint settled = event::EventLoop::now() + config_.hand_over.settle;
  for (const auto& worker : workers)
    worker->park(settled, [this](relay::WorkerThread::Parked parked) {
      const std::lock_guard lock(collected_.mutex);
      if (collected_.over) return;
      collected_.parked.push_back(std::move(parked));
      collected_.changed.notify_all();
    });
  parking::Parked all = collect(workers.size(), settled + kParkWait);
  // The connections were in use until now.
  all.parked_at = event::EventLoop::now();
  if (const std::size_t dropped = parking::drop_largest(all, keeper_->limits()->bytes))
    LogEvent(LogLevel::kWarn, kLogger, "dropped")
        .field("connections", std::uint64_t{dropped})
        .field("what", "they have more bytes in hand than the keeper takes");
  return parking::encode(std::move(all));
}

Result<void> ConnectionKeeping::send(parking::Parcel& parcel, std::span<const std::byte> bytes) {
  parcel.bytes = bytes.size();
  parcel.description = ForeignDescriptor(SMC_TRY(parking::seal_description(bytes)));
  return keeper_->park(parcel, event::EventLoop::now() + kParkWait);
}

// The description is decoded as the next process would do it.
void ConnectionKeeping::give_again(parking::Parcel parcel,
                                   const parking::EncodedDescription& encoded,
                                   const Workers& workers) {
  std::vector<FileDescriptor> descriptors;
  for (ForeignDescriptor& descriptor : parcel.descriptors)
    descriptors.push_back(descriptor.release());
  Result<parking::Parked> parked = parking::decode(encoded.bytes, std::move(descriptors));
  if (!parked) {
    LogEvent(LogLevel::kError, kLogger, "not_resumed").field("what", to_string(parked.error()));
    return;
  }
  std::vector<relay::WorkerThread::Parked> shares(workers.size());
  std::map<SocketAddress, std::size_t> listening;  // workers, by address
  for (relay::ParkedListener& listener : parked->listeners)
    shares[listening[listener.address]++ % shares.size()].listeners.push_back(std::move(listener));
  for (std::size_t i = 0; i < parked->connections.size(); ++i)
    shares[encoded.workers[i]].connections.push_back(std::move(parked->connections[i]));
  for (std::size_t i = 0; i < workers.size(); ++i) (void)workers[i]->unpark(std::move(shares[i]));
}

bool ConnectionKeeping::park(const Workers& workers) {
  if (!keeper_) return false;
  keeper_->stop();
  const auto not_parked = [this](std::size_t connections, const Error& why) {
    keeper_->leave();
    LogEvent(LogLevel::kWarn, kLogger, "not_parked")
        .field("connections", std::uint64_t{connections})
        .field("what", to_string(why))
        .field("hint", "the connections go on until drain.timeout");
    return false;
  };
  const relay::Worker::Parkable all = drain_the_dead(workers);
  if (const Result<void> offered = offer(all, workers); !offered)
    return not_parked(all.connections, offered.error());
  const TimePoint begin = event::EventLoop::now();
  parking::EncodedDescription encoded = take_from(workers);
  parking::Parcel parcel;
  for (FileDescriptor& descriptor : encoded.descriptors)
    parcel.descriptors.emplace_back(std::move(descriptor));
  const Result<void> parked = send(parcel, encoded.bytes);
  if (!parked) {
    give_again(std::move(parcel), encoded, workers);
    return not_parked(encoded.workers.size(), parked.error());
  }
  for (const auto& worker : workers) worker->finish(event::EventLoop::now());
  LogEvent(LogLevel::kInfo, kLogger, "parked")
      .field("connections", std::uint64_t{encoded.workers.size()})
      .field("ended", encoded.ended)
      .field("bytes", std::uint64_t{encoded.bytes.size()})
      .field("ms", milliseconds(event::EventLoop::now() - begin));
  return true;
}

}  // namespace fairlead
