#include "relay/worker/fallback_log.h"

namespace fairlead::relay {

std::string FallbackLog::key_of(Direction direction, const SocketAddress& peer) {
  return std::string(to_string(direction)) + ' ' + to_string_without_port(peer);
}

void FallbackLog::report(const FallbackEvent& event, TimePoint now) {
  const FallbackInfo& info = fallback_info(event.reason);
  if (pairs_.size() >= kRememberedPairsMax) pairs_.clear();
  if (fallen_back_.size() >= kRememberedPairsMax) fallen_back_.clear();
  const std::string peer = key_of(event.direction, event.peer);
  fallen_back_[peer] = true;
  Pair& pair = pairs_[peer + ' ' + std::string(info.name)];
  if (pair.seen && now - pair.last_line < kCollapse) {
    ++pair.suppressed;
    return;
  }
  // An expected reason gets one line at info level, then only debug lines.
  const LogLevel level = !info.expected ? LogLevel::kWarn
                         : pair.seen    ? LogLevel::kDebug
                                        : LogLevel::kInfo;
  lines_.write(level, "smc.fallback", "fallback", now, [&](LogEvent& line) {
    line.field("direction", to_string(event.direction))
        .field("side", to_string(event.side))
        .field("reason", info.name)
        .code("code", info.code)
        .code("peer_code", event.peer_code)
        .field("pnet", event.pnet.empty() ? "-" : std::string_view(event.pnet))
        .field("rnic", event.rnic.empty() ? "-" : std::string_view(event.rnic))
        .field("local", to_string(event.local))
        .field("peer", to_string(event.peer))
        .field("phase", event.phase)
        .milliseconds("elapsed_ms", event.elapsed_seconds)
        .field("conn", event.connection);
    if (pair.suppressed != 0) line.field("repeated", pair.suppressed);
    if (event.detail[0] != '\0') line.field("detail", event.detail);
    line.field("hint", info.hint);
  });
  pair = {now, 0, true};
}

void FallbackLog::report_success(Direction direction, const SocketAddress& peer,
                                 const std::string& connection, TimePoint now) {
  if (fallen_back_.empty()) return;
  const auto found = fallen_back_.find(key_of(direction, peer));
  if (found == fallen_back_.end()) return;
  fallen_back_.erase(found);
  lines_.write(LogLevel::kInfo, "smc.fallback", "recovered", now, [&](LogEvent& line) {
    line.field("direction", to_string(direction))
        .field("peer", to_string(peer))
        .field("conn", connection);
  });
}

}  // namespace fairlead::relay
