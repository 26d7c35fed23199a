#include "injector/chores.h"

#include <functional>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/log.h"

namespace fairlead::injector {

Chores::Chores(InjectorMetrics& metrics, std::optional<Cluster> cluster, Duration interval,
               Refresh refresh, Serve serve)
    : metrics_(metrics),
      cluster_(std::move(cluster)),
      interval_(interval),
      refresh_(std::move(refresh)),
      serve_(std::move(serve)) {}

void Chores::order_event(EventOrder order) {
  if (!cluster_ || !kubernetes::is_object_name(order.name_space) || order.about.name.empty())
    return metrics_.count_event(false);
  if (order.message.size() > kMessageBytesMax) order.message.resize(kMessageBytesMax);
  order.message.shrink_to_fit();
  Added added = Added::kAdded;
  {
    const std::lock_guard lock(mutex_);
    const std::string name_space = order.name_space;
    added = orders_.add(name_space, std::move(order));
  }
  if (added != Added::kAdded) metrics_.count_event(false);
  thread_.wake();
}

std::optional<EventOrder> Chores::take_order() {
  const std::lock_guard lock(mutex_);
  return orders_.take();
}

void Chores::run() {
  TimePoint next_look = std::chrono::steady_clock::now();
  for (;;) {
    const std::optional<EventOrder> order = take_order();
    if (order) make_event(*order);
    if (std::chrono::steady_clock::now() >= next_look)
      next_look = std::chrono::steady_clock::now() + (refresh() ? interval_ : kRetryInterval);
    if (order ? thread_.is_stopping() : !thread_.wait_until(next_look)) return;
  }
}

bool Chores::refresh() {
  unsigned renewed = 0;
  const Called<KeyPair> pair = refresh_(renewed);
  metrics_.count_renewals(renewed);
  std::string error = pair ? std::string() : pair.error();
  if (pair && pair->certificate_pem != served_pem_) {
    const auto validity = validity_of(pair->certificate_pem);
    const Result<void> served = validity ? serve_(*pair) : Result<void>(Error(validity.error()));
    if (served) {
      served_pem_ = pair->certificate_pem;
      const auto expiry = std::chrono::system_clock::to_time_t(validity->until);
      metrics_.set_expiry(expiry);
      LogEvent(LogLevel::kInfo, "injector", "certificate")
          .field("expires", static_cast<std::uint64_t>(expiry))
          .field("renewed", renewed != 0 ? "true" : "false");
    } else {
      error = to_string(served.error());
    }
  }
  if (error.empty()) return true;
  metrics_.count_certificate_error();
  LogEvent(LogLevel::kWarn, "injector", "certificate_failed").field("what", error);
  return false;
}

void Chores::make_event(const EventOrder& order) {
  const TimePoint now = std::chrono::steady_clock::now();
  told_.erase_if([now](const Told& told) { return now >= told.at + kRepeatInterval; });
  const std::size_t hash =
      std::hash<std::string>()(order.about.kind + '/' + order.about.name + '/' + order.message);
  const auto is_same = [hash](const Told& told) { return told.hash == hash; };
  if (told_.contains(order.name_space, is_same)) return;
  if (!told_.admits(order.name_space)) return metrics_.count_event(false);
  const Called<void> made =
      cluster_->create_event(order.name_space, order.about, order.reason, order.message);
  metrics_.count_event(made.has_value());
  if (made)
    told_.add(order.name_space, {hash, now});
  else
    lines_.write(LogLevel::kWarn, "injector", "event_lost", now,
                 [&](LogEvent& line) { line.field("what", made.error()); });
}

}  // namespace fairlead::injector
