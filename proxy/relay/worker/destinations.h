// What outbound connections have taught about their destinations. Where a destination does not lead
// to SMC-R, for a reason that lasts, the redirect programs of the pod leave it alone: connections
// of applications go there directly. After a while one comes through the sidecar again, and its
// outcome decides for a longer while. An address may stand for several servers. One connection over
// SMC-R is enough to lead all of them through the sidecar.
//
// Only the outcome of a connection counts, for exactly the address and port that the application
// has chosen. So a hostile peer decides about its own address only.
//
// A destination that has answered lately is remembered, too: connections to others are held until
// the sidecar has dialled them.
//
// All workers share the table. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "base/fallback.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "base/time.h"

namespace fairlead::relay {

// Destinations that are remembered. If there are more, those that matter the shortest are
// forgotten.
inline constexpr std::size_t kDestinationsMax = 1024;
// For so long after a connection over SMC-R, others to the same destination do not make it direct.
inline constexpr Duration kGainRemembered = std::chrono::minutes(10);

class Destinations {
 public:
  // How the programs are told: see bpf::DestinationHints.
  struct Programs {
    std::function<Result<void>(const SocketAddress& to, unsigned level)> leave_alone;
    std::function<Result<void>(const SocketAddress& to)> answers;
    std::function<Result<void>(const SocketAddress& to)> forget;
    std::function<Result<void>()> forget_all;
  };
  // `learns` is false where no connection may go past the proxy: then leave_alone is never called.
  explicit Destinations(Programs programs, bool learns = true)
      : programs_(std::move(programs)), learns_(learns) {}

  // A redirected connection has been dialled. Later ones are not held for a while.
  void answered(const SocketAddress& to, TimePoint now);
  // It could not be dialled.
  void failed(const SocketAddress& to, TimePoint now);
  // A redirected connection has become TCP, and may. True if the destination is left alone now.
  bool led_to_tcp(const SocketAddress& to, Side side, FallbackReason reason, TimePoint now);
  // A redirected connection is carried over SMC-R.
  void led_to_smc(const SocketAddress& to, TimePoint now);
  // Something has changed for all destinations, such as the devices of this pod.
  void forget_all();

  // Those that are left alone now, in the order of their addresses.
  std::vector<DestinationRow> rows(TimePoint now) const;

 private:
  struct Known {
    FallbackReason reason = FallbackReason::kInternal;
    unsigned level = 0;  // of the latest time that it was left alone; 0: never
    TimePoint learned{};
    TimePoint direct_until{};
    TimePoint gains_until{};
    TimePoint answers_until{};
    TimePoint matters_until() const { return std::max({direct_until, gains_until, answers_until}); }
  };
  struct Hash {
    std::size_t operator()(const SocketAddress& address) const { return address.hash(); }
  };
  Known& entry(const SocketAddress& to);

  const Programs programs_;
  const bool learns_;
  mutable std::mutex mutex_;
  std::unordered_map<SocketAddress, Known, Hash> known_;
};

}  // namespace fairlead::relay
