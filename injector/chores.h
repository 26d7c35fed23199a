// Certificate renewal, and Events about pods without sidecar. Runs on a separate thread because
// calls to the API server block.
//
// Timers: `interval` between two checks of the certificate, kRetryInterval after a failure,
// kRepeatInterval before the same Event is created again.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/linux/service_thread.h"
#include "base/paced_lines.h"
#include "injector/injector_metrics.h"
#include "injector/namespace_shares.h"
#include "injector/own_certificates.h"

namespace fairlead::injector {

struct EventOrder {
  std::string name_space;
  Subject about;  // one that subject_of() has made
  std::string reason;
  std::string message;
};

class Chores {
 public:
  static constexpr Duration kRetryInterval = std::chrono::seconds(5);
  static constexpr Duration kRepeatInterval = std::chrono::minutes(10);
  static constexpr std::size_t kOrdersMax = 256;
  static constexpr std::size_t kRememberedMax = 1024;
  static constexpr std::size_t kMessageBytesMax = 1024;  // what an API server takes

  using Refresh = std::function<Called<KeyPair>(unsigned& renewed)>;
  // Called on this thread when the certificate has changed. If it returns an error, it is called
  // again at the next check.
  using Serve = std::function<Result<void>(const KeyPair&)>;

  // `cluster`: for Events; without one they are counted as lost. All references must outlive this.
  Chores(InjectorMetrics& metrics, std::optional<Cluster> cluster, Duration interval,
         Refresh refresh, Serve serve);

  // Errors: of ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }
  // Waits for a call in progress. Later orders are discarded.
  void stop() { thread_.stop(); }

  // Any thread, never blocks. Events beyond kOrdersMax or the share of a namespace are dropped and
  // counted. So are Events without a namespace or a subject.
  void order_event(EventOrder order);

 private:
  void run();
  std::optional<EventOrder> take_order();
  bool refresh();
  void make_event(const EventOrder& order);

  InjectorMetrics& metrics_;
  std::optional<Cluster> cluster_;
  Duration interval_;
  Refresh refresh_;
  Serve serve_;
  std::string served_pem_;
  struct Told {
    std::size_t hash;  // of object and message
    TimePoint at;
  };
  NamespaceShares<Told> told_{kRememberedMax};
  PacedLines lines_;  // of the thread

  std::mutex mutex_;  // guards orders_
  NamespaceShares<EventOrder> orders_{kOrdersMax};

  ServiceThread thread_;
};

}  // namespace fairlead::injector
