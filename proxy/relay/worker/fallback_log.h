// One stable line for each connection that stays TCP (docs/reasons.md). A storm of the same pair of
// peer and reason becomes one line each kCollapse, with the number of those left out. A storm of
// many peers is bounded by kFallbackLines.
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
// Peers remembered for collapsing; beyond it the table starts from empty.
inline constexpr std::size_t kRememberedPairsMax = 1024;
// Lines of one kind in kCollapse, for all peers: a stranger may come from many addresses.
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
  std::string pnet;  // of the port that was chosen, or of the configuration; may be empty
  std::string rnic;  // the device that was chosen; empty: the decision came before
  const char* detail = "";
};

class FallbackLog {
 public:
  void report(const FallbackEvent& event, TimePoint now);
  // The first SMC-R connection with a peer after a fallback is news.
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
