// Keeps connections beyond the end of this process: takes back what the process before has parked
// at the keeper, and parks there at the end. Without hand_over.socket, or without a keeper, the
// proxy starts and ends as if this were not here. See docs/hand-over.md.
//
// One thread, that of main(), but for the keeper's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "parking/description.h"
#include "parking/proxy_keeper.h"
#include "relay/worker/worker_thread.h"

namespace fairlead {

// How long workers may take to stop, beyond hand_over.settle, and the keeper to take the parcel.
inline constexpr Duration kParkWait = std::chrono::seconds(5);

class ConnectionKeeping {
 public:
  using Workers = std::vector<std::unique_ptr<relay::WorkerThread>>;

  explicit ConnectionKeeping(const config::Config& config) : config_(config) {}

  // Waits for the keeper where a parked listener has one of the configured addresses.
  void take_back();
  // The sockets that listen already at this address; each is given out once.
  std::vector<FileDescriptor> listeners_at(const SocketAddress& address);
  // Gives the connections to the workers, which have not started.
  void give_to(const Workers& workers);
  // The workers start now, and move bytes: what the keeper has is not true any more.
  void confirm();
  // The workers have started. `park_wanted` is called on another thread.
  void start(std::function<void()> park_wanted);
  // True when the workers' connections are at the keeper, or none was left to go on; the workers
  // may end. False: the connections are the workers', as before, and the keeper has none of them.
  bool park(const Workers& workers);

 private:
  bool expects_parcel() const;
  Result<void> take(parking::Parcel parcel);
  relay::Worker::Parkable drain_the_dead(const Workers& workers);
  // The keeper answers, and has room for what the workers have.
  Result<void> offer(const relay::Worker::Parkable& all, const Workers& workers);
  // Takes the workers' connections, encoded, from them.
  parking::EncodedDescription take_from(const Workers& workers);
  // `bytes`: the description of the parcel, which gets it.
  Result<void> send(parking::Parcel& parcel, std::span<const std::byte> bytes);
  // The keeper did not take them: each worker goes on with those that it had.
  static void give_again(parking::Parcel parcel, const parking::EncodedDescription& encoded,
                         const Workers& workers);
  relay::Worker::Parkable count(const Workers& workers);

  parking::Parked collect(std::size_t workers, TimePoint deadline);

  // What the workers leave, from their threads.
  struct Collected {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<relay::Worker::Parkable> counts;
    std::vector<relay::WorkerThread::Parked> parked;
    bool over = false;  // what comes now comes too late, and is reset
  };

  const config::Config& config_;
  Collected collected_;
  std::unique_ptr<parking::ProxyKeeper> keeper_;  // null without hand_over.socket
  std::atomic<bool> asked_{false};                // to park, by the keeper
  std::optional<parking::Parked> parked_;         // that was taken back
  std::size_t descriptors_ = 0;                   // of it
};

}  // namespace fairlead
