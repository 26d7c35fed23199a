#include "relay/worker/destinations.h"

#include <algorithm>

#include "bpf/destination_hints.h"

namespace fairlead::relay {
namespace {

// A peer that drains, or whose port is down, says that it has no device.
unsigned level_max(Side side, FallbackReason reason) {
  constexpr unsigned kOfDrain = 2;
  return side == Side::kPeer && reason == FallbackReason::kNoRdmaDevice ? kOfDrain
                                                                        : FAIRLEAD_REDIRECT_LEVELS;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Destinations::answered(const SocketAddress& to, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Known& known = entry(to);
  // What is direct does not come here, but for connections that began before.
  if (now < known.direct_until || now + bpf::kAnswersLifetime / 2 < known.answers_until) return;
  if (programs_.answers(to)) known.answers_until = now + bpf::kAnswersLifetime;
}

void Destinations::failed(const SocketAddress& to, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(to);
  if (found == known_.end() || found->second.answers_until <= now) return;
  (void)programs_.forget(to);
  found->second.answers_until = {};
}

bool Destinations::led_to_tcp(const SocketAddress& to, Side side, FallbackReason reason,
                              TimePoint now) {
  if (!learns_ || !fallback_info(reason).lasts) return false;
  const std::lock_guard lock(mutex_);
  Known& known = entry(to);
  if (now < known.gains_until) return false;
  // Connections that began before the first of them was decided must not count as further proof.
  // Nor must those that come because the programs have forgotten the destination.
  const bool again = now >= known.direct_until;
  if (again) known.level = std::min(known.level + 1, level_max(side, reason));
  if (!programs_.leave_alone(to, known.level)) {
    known.level = 0;
    known.direct_until = {};
    return false;
  }
  if (again) known.learned = now;
  known.reason = reason;
  known.direct_until = now + bpf::direct_lifetime(known.level);
  known.answers_until = {};
  return true;
}

void Destinations::led_to_smc(const SocketAddress& to, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Known& known = entry(to);
  known.level = 0;
  known.gains_until = now + kGainRemembered;
  // Another connection to the same address may have made it direct meanwhile.
  if (now < known.direct_until) (void)programs_.forget(to);
  known.direct_until = {};
}

void Destinations::forget_all() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  (void)programs_.forget_all();
}

// The entry that matters the shortest makes room.
Destinations::Known& Destinations::entry(const SocketAddress& to) {
  if (const auto found = known_.find(to); found != known_.end()) return found->second;
  if (known_.size() >= kDestinationsMax) {
    known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
      return a.second.matters_until() < b.second.matters_until();
    }));
  }
  return known_[to];
}

std::vector<DestinationRow> Destinations::rows(TimePoint now) const {
  std::vector<std::pair<SocketAddress, Known>> direct;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [to, known] : known_)
      if (now < known.direct_until) direct.emplace_back(to, known);
  }
  std::sort(direct.begin(), direct.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<DestinationRow> rows;
  for (const auto& [to, known] : direct) {
    const FallbackInfo& info = fallback_info(known.reason);
    rows.push_back({.destination = to_string(to),
                    .reason = std::string(info.name),
                    .reason_code = info.code,
                    .learned_seconds = seconds(now - known.learned),
                    .left_seconds = seconds(known.direct_until - now)});
  }
  return rows;
}

}  // namespace fairlead::relay
