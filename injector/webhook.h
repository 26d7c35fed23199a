// The two HTTP interfaces of the injector: reviews over TLS, and probes with metrics without.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/paced_lines.h"
#include "event/http/http_server.h"
#include "injector/chores.h"
#include "injector/injector_metrics.h"
#include "injector/review.h"
#include "injector/settings.h"

namespace fairlead::injector {

// POST /mutate/pods        pods that carry the annotation
// POST /mutate/namespaces  pods of namespaces that carry the label
class Webhook {
 public:
  // Bodies are kept in memory while they arrive. The container's memory limits them and the TLS
  // connections, which need some 50 KiB each.
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr std::size_t kHeldBytesMax = 24 << 20;
  // A handshake costs the server about half a millisecond. An API server makes far fewer.
  static constexpr unsigned kConnectionsPerSecond = 200;
  static event::HttpLimits limits() {
    event::HttpLimits limits;
    limits.connections_max = kConnectionsMax;
    limits.body_bytes_max = kReviewBytesMax;
    limits.held_bytes_max = kHeldBytesMax;
    limits.connections_per_second = kConnectionsPerSecond;
    return limits;
  }

  // `order_event` may be called from the thread that serves.
  Webhook(Settings settings, InjectorMetrics& metrics, std::function<void(EventOrder)> order_event)
      : settings_(std::move(settings)), metrics_(metrics), order_event_(std::move(order_event)) {}

  void handle(event::HttpExchange exchange);

 private:
  event::HttpResponse answer(const event::HttpRequest& request);
  void report(const Review& review, const Decision& decision);

  Settings settings_;
  InjectorMetrics& metrics_;
  std::function<void(EventOrder)> order_event_;
  PacedLines lines_;
};

// GET /livez /readyz /metrics
class AdminPages {
 public:
  AdminPages(const InjectorMetrics& metrics, const std::atomic<bool>& is_ready)
      : metrics_(metrics), is_ready_(is_ready) {}
  void handle(event::HttpExchange exchange) const;

 private:
  const InjectorMetrics& metrics_;
  const std::atomic<bool>& is_ready_;
};

}  // namespace fairlead::injector
