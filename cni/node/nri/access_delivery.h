// Steps after a decision about a sidecar's devices that must not delay the start of a container:
// the note to the sidecar, in the alias of its pod's lo, and devices for running sidecars. They run
// on a separate thread; calls that enter a pod run on a thread for that pod.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/linux/service_thread.h"
#include "base/paced_lines.h"
#include "cni/node/nri/late_device.h"
#include "cni/node/pods/pod_calls.h"

namespace fairlead::cni::node::nri {

// Number of containers that a node may have when the agent connects; further deliveries are
// dropped.
inline constexpr std::size_t kDeliveriesMax = 4096;

// Retries for a container that is still being started.
inline constexpr std::chrono::seconds kLateRetryInterval{2};
inline constexpr unsigned kLateTriesMax = 30;
// How long a pod may delay a call of a delivery.
inline constexpr std::chrono::seconds kDeliveryCallMax{2};

struct Delivery {
  std::string pod_id;  // of its sandbox
  std::string pod;     // namespace/name, for the log
  RnicAccess access = RnicAccess::kNotSidecar;
  std::optional<LateDevices> late;
  std::chrono::steady_clock::time_point due{};
  unsigned tries = 0;
};

class AccessDelivery {
 public:
  struct Counts {
    std::atomic<std::uint64_t> late_given{0}, late_failed{0}, late_retries{0};
    std::atomic<std::uint64_t> dropped{0};
  };

  // `run_dir`: folder of the plugin's states of pods.
  AccessDelivery(std::string run_dir, LatePlaces places)
      : run_dir_(std::move(run_dir)), places_(std::move(places)) {}
  // From here on it delivers; its end discards deliveries that have not begun. Errors: of
  // ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }

  // From any thread; does not wait.
  void add(Delivery delivery);
  const Counts& counts() const { return counts_; }

 private:
  void run();
  std::optional<Delivery> take_due();
  // False if the caller has to repeat it later.
  bool deliver(Delivery& delivery);
  bool deliver_late(Delivery& delivery);

  std::string run_dir_;
  LatePlaces places_;
  PodCalls calls_;    // used on the thread
  PacedLines lines_;  // likewise
  Counts counts_;
  std::mutex mutex_;  // guards waiting_
  std::deque<Delivery> waiting_;
  ServiceThread thread_;
};

}  // namespace fairlead::cni::node::nri
