// Writes one stable line for each connection that stays TCP (docs/reasons.md). Repetitions of the
// same peer and reason become one line per kCollapse, with the number of omitted ones. Fallbacks
// with many peers are bounded by kFallbackLines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/address.h"
#include "base/fallback.h"
#include "base/paced_lines.h"
#include "base/time.h"

namespace fairlead::relay {

inline constexpr Duration kCollapse = std::chrono::seconds(10);
// Peers remembered for collapsing. When the table is full, it is cleared.
inline constexpr std::size_t kRememberedPairsMax = 1024;
// Lines of one kind per kCollapse, for all peers: a stranger may come from many addresses.
inline constexpr unsigned kFallbackLines = 100;

struct FallbackEvent {
  Direction direction = Direction::kOutbound;
  Side side = Side::kLocal;
  FallbackReason reason = FallbackReason::kInternal;
  std::uint32_t peer_code = 0;
  SocketAddress local;
  SocketAddress peer;
  const char* phase = "";
  double elapsed_seconds = 0;
  std::string connection;
  std::string pnet;  // of the chosen port, or of the configuration; may be empty
  std::string rnic;  // the chosen device; empty if the decision came before
  const char* detail = "";
};

class FallbackLog {
 public:
  void report(const FallbackEvent& event, TimePoint now);
  // Reports the first SMC-R connection with a peer after a fallback.
  void report_success(Direction direction, const SocketAddress& peer, const std::string& connection,
                      TimePoint now);

 private:
  struct Pair {
    TimePoint last_line;
    std::uint64_t suppressed = 0;
    bool seen = false;
  };
  static std::string key_of(Direction direction, const SocketAddress& peer);

  std::unordered_map<std::string, Pair> pairs_;        // peer and reason
  std::unordered_map<std::string, bool> fallen_back_;  // peer
  PacedLines lines_{kFallbackLines, kCollapse};
};

}  // namespace fairlead::relay
