// Keeps connections beyond the end of this process: takes back what the previous process has parked
// at the keeper, and parks there at the end. Without hand_over.socket, or without a keeper, the
// proxy starts and ends as if this class did not exist. See docs/hand-over.md.
//
// Used on the thread of main(); the keeper has its own thread.
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

// How long workers may take to stop after hand_over.settle, and the keeper to take the parcel.
inline constexpr Duration kParkWait = std::chrono::seconds(5);

class ConnectionKeeping {
 public:
  using Workers = std::vector<std::unique_ptr<relay::WorkerThread>>;

  explicit ConnectionKeeping(const config::Config& config) : config_(config) {}

  // Waits for the keeper if an earlier process still listens at one of the configured addresses.
  void take_back();
  // The taken-back listening sockets at this address; each is returned once.
  std::vector<FileDescriptor> listeners_at(const SocketAddress& address);
  // Gives the connections to the workers. Call this before these start.
  void give_to(const Workers& workers);
  // The workers start now and move bytes, so the keeper's copy becomes obsolete.
  void confirm();
  // Called when the workers have started. `park_wanted` is called on another thread.
  void start(std::function<void()> park_wanted);
  // True if the keeper has the workers' connections, or none was left to continue; the workers may
  // end. False: the workers keep their connections, and the keeper has none of them.
  bool park(const Workers& workers);

 private:
  bool expects_parcel() const;
  Result<void> take(parking::Parcel parcel);
  relay::Worker::Parkable drain_the_dead(const Workers& workers);
  // Success: the keeper answers, and has room for the workers' connections.
  Result<void> offer(const relay::Worker::Parkable& all, const Workers& workers);
  // Takes the connections from the workers and encodes them.
  parking::EncodedDescription take_from(const Workers& workers);
  // `bytes`: the description, which becomes part of the parcel.
  Result<void> send(parking::Parcel& parcel, std::span<const std::byte> bytes);
  // The keeper did not take the connections: each worker continues with its own.
  static void give_again(parking::Parcel parcel, const parking::EncodedDescription& encoded,
                         const Workers& workers);
  relay::Worker::Parkable count(const Workers& workers);

  parking::Parked collect(std::size_t workers, TimePoint deadline);

  // What the workers' threads hand in.
  struct Collected {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<relay::Worker::Parkable> counts;
    std::vector<relay::WorkerThread::Parked> parked;
    bool over = false;  // what arrives later is too late, and is reset
  };

  const config::Config& config_;
  Collected collected_;
  std::unique_ptr<parking::ProxyKeeper> keeper_;  // null without hand_over.socket
  std::atomic<bool> asked_{false};                // by the keeper, to park
  std::optional<parking::Parked> parked_;         // taken back from the keeper
  std::size_t descriptors_ = 0;                   // of parked_
};

}  // namespace fairlead
