// The last decisions about connections, for `fairleadctl why`. They are kept in raw form and
// formatted only on request, because there is one for every connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/fallback.h"
#include "base/snapshot.h"

namespace fairlead::relay {

inline constexpr std::size_t kDecisionsMax = 256;  // per worker

struct Decision {
  std::uint64_t session = 0;
  std::chrono::system_clock::time_point time;
  Direction direction = Direction::kOutbound;
  Side side = Side::kLocal;
  Transport transport = Transport::kTcp;
  SocketAddress local, peer;
  std::optional<FallbackReason> reason;
  std::uint32_t peer_code = 0;
  double elapsed_seconds = 0;
  std::vector<const char*> steps;  // literals
};

class DecisionLog {
 public:
  DecisionLog() { ring_.reserve(kDecisionsMax); }
  void add(Decision decision);
  std::vector<DecisionRow> rows() const;  // newest first

 private:
  std::vector<Decision> ring_;
  std::size_t next_ = 0;
};

// For example "c-18f", as in the log.
std::string session_id(std::uint64_t number);

}  // namespace fairlead::relay
