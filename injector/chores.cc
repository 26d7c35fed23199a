#include "injector/chores.h"

#include <utility>

#include "base/log.h"

namespace fairlead::injector {

Chores::Chores(InjectorMetrics& metrics, std::optional<Cluster> cluster, Duration interval,
               Refresh refresh, Serve serve)
    : metrics_(metrics),
      cluster_(std::move(cluster)),
      interval_(interval),
      refresh_(std::move(refresh)),
      serve_(std::move(serve)) {}

void Chores::start() {
  thread_ = std::thread([this] { run(); });
}

void Chores::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Chores::order_event(EventOrder order) {
  {
    const std::lock_guard lock(mutex_);
    if (orders_.size() >= kOrdersMax) return metrics_.count_event(false);
    orders_.push_back(std::move(order));
  }
  changed_.notify_one();
}

void Chores::run() {
  TimePoint next_look = std::chrono::steady_clock::now();
  while (true) {
    std::deque<EventOrder> due;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, next_look, [this] { return stopped_ || !orders_.empty(); });
      if (stopped_) return;
      due.swap(orders_);
    }
    for (const EventOrder& order : due) make_event(order);
    if (std::chrono::steady_clock::now() >= next_look)
      next_look = std::chrono::steady_clock::now() + (refresh() ? interval_ : kRetryInterval);
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
  if (!cluster_ || !is_object_name(order.name_space) || order.about.name.empty())
    return metrics_.count_event(false);
  const TimePoint now = std::chrono::steady_clock::now();
  std::erase_if(told_, [now](const auto& entry) { return now >= entry.second + kRepeatInterval; });
  const std::string key =
      order.name_space + '/' + order.about.kind + '/' + order.about.name + '/' + order.message;
  if (told_.contains(key)) return;
  if (told_.size() >= kRememberedMax) return metrics_.count_event(false);
  const Called<void> made =
      cluster_->create_event(order.name_space, order.about, order.reason, order.message);
  metrics_.count_event(made.has_value());
  if (made)
    told_[key] = now;
  else
    lines_.write(LogLevel::kWarn, "injector", "event_lost", now,
                 [&](LogEvent& line) { line.field("what", made.error()); });
}

}  // namespace fairlead::injector
