#include "app/direct_paths.h"

#include <algorithm>
#include <string>
#include <utility>

#include "event/event_loop.h"

namespace fairlead {

DirectPaths::DirectPaths(const config::Config& config)
    : redirected_(std::any_of(config.listeners.begin(), config.listeners.end(),
                              [](const config::Listener& listener) {
                                return listener.direction == Direction::kOutbound &&
                                       listener.mode == config::ListenerMode::kRedirect;
                              })) {
  if (!redirected_) {
    unavailable_ = "no connection is redirected";
    return;
  }
  Result<bpf::DestinationHints> programs = bpf::DestinationHints::open();
  if (!programs) {
    unavailable_ = "all connections pass the proxy: " + std::string(programs.error().what) +
                   "; the redirect translates addresses, or there is none";
    return;
  }
  const bool never = config.direct == config::DirectMode::kNever;
  if (never) unavailable_ = "all connections pass the proxy, by configuration";
  programs_.emplace(std::move(*programs));
  destinations_.emplace(
      relay::Destinations::Programs{
          .leave_alone = [this](const SocketAddress& to,
                                unsigned level) { return programs_->leave_alone(to, level); },
          .answers = [this](const SocketAddress& to) { return programs_->answers(to); },
          .forget = [this](const SocketAddress& to) { return programs_->forget(to); },
          .forget_all = [this] { return programs_->forget_all(); }},
      !never);
}

std::optional<admin::Fact> DirectPaths::fact() const {
  if (!redirected_) return std::nullopt;
  const std::string text =
      unavailable_.empty()
          ? "connections that SMC-R cannot carry go past the proxy, once that is learned"
          : unavailable_;
  return admin::Fact{"direct", admin::FactStatus::kOk, text, ""};
}

admin::DirectReport DirectPaths::report() const {
  admin::DirectReport report;
  report.unavailable = unavailable_;
  if (!destinations_) return report;
  if (const Result<std::uint64_t> count = programs_->direct_connections())
    report.connections = *count;
  report.destinations = destinations_->rows(event::EventLoop::now());
  return report;
}

}  // namespace fairlead
