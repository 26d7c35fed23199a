// Why a connection is TCP and not SMC-R: one table, from which the log line, the metric labels, the
// Decline on the wire, `fairleadctl fallbacks` and the reference in docs/ are all made.
//
// Reasons with a code below 0x0f000000 are the protocol's (docs/wire.md, "Reason codes");
// 0x0f0000NN are ours and never leave the host: their `wire_code` is what a Decline carries
// instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace fairlead {

enum class FallbackReason : std::uint8_t {
  kMemory,
  kConfirmLinkTimeout,
  kAddLinkTimeout,
  kConfigError,
  kPeerNoSmc,
  kIpsec,
  kNoDevice,
  kNoSmcdDevice,
  kNoRdmaDevice,
  kNoIsmV2,
  kNoV2Extension,
  kNoSmcdV2Extension,
  kNoSeid,
  kNoSmcdV2Device,
  kPeerNoUeid,
  kReleaseMismatch,
  kMaxConnectionsMismatch,
  kMaxLinksMismatch,
  kModeMismatch,
  kRmbeEyecatcher,
  kUnsupportedOption,
  kPrefixMismatch,
  kVlan,
  kIsmVlan,
  kNoActiveLink,
  kLinkNotFound,
  kVersionMismatch,
  kSmcdBufferLimit,
  kNoRoute,
  kIndirectMismatch,
  kSyncError,
  kPeerDeclined,
  kInternal,
  kRkey,
  kQueuePairNotReady,
  kMemoryRegistration,
  // Ours.
  kNoPnet,
  kNoUsableGid,
  kMemlockLimit,
  kDeviceOpenEperm,
  kPolicyExcluded,
  kPeerNotInjected,
  kOptionStripped,
  kRnicExclusiveMode,
  kDisabled,
  kNoOptionProgram,
  kHandshakeTimeout,
  kConnectionLimit,
  kMalformedClc,
  kDraining,
  kPortDown,
  kRnicNotGiven,
  kRnicUnsupported,
  kOptionWithheld,
};

struct FallbackInfo {
  FallbackReason reason;
  std::string_view name;      // snake_case; the value of the label `reason`
  std::uint32_t code;         // shown to people and in the label `code`
  std::uint32_t wire_code;    // what our Decline carries
  bool expected;              // ordinary life (a stranger, a policy): DEBUG after the first time
  std::string_view sentence;  // what happened
  std::string_view hint;      // what to do about it
  bool peer_only;             // no condition here gives it, only the Decline of a peer
  bool lasts = true;          // the next connection to the same destination would meet it, too
};

// Which alerts count the connections of a reason (docs/alerts.md).
enum class FallbackAlarm : std::uint8_t {
  kNone,   // wanted, or ordinary
  kMeant,  // only where the proxy was meant to have an RNIC: without one it is every connection
  kShare,  // everywhere
};
FallbackAlarm fallback_alarm(FallbackReason reason);

// In the order of the enumeration.
std::span<const FallbackInfo> fallback_table();
const FallbackInfo& fallback_info(FallbackReason reason);
// By FallbackInfo::name; nullptr for a name that is not in the table.
const FallbackInfo* find_fallback(std::string_view name);
std::size_t fallback_reason_count();

// The reason a peer gave in its Decline; an unknown code is kPeerDeclined.
FallbackReason fallback_from_wire(std::uint32_t code);

// Why connections are TCP while an RDMA device cannot be opened.
FallbackReason fallback_from_open(const Error& error);
// Of readying a queue pair. ENODEV is the answer of driver packages (MLNX_OFED, DOCA-OFED) that
// refuse a GID whose interface is in another network namespace.
FallbackReason fallback_from_connect(const Error& error);

enum class Side : std::uint8_t { kLocal, kPeer };
enum class Direction : std::uint8_t { kOutbound, kInbound };
enum class Transport : std::uint8_t {
  kSmcr,
  kTcp,
  kShort,  // TCP between two proxies, until it has earned SMC-R
};

constexpr std::string_view to_string(Side side) { return side == Side::kLocal ? "local" : "peer"; }
constexpr std::string_view to_string(Direction direction) {
  return direction == Direction::kOutbound ? "outbound" : "inbound";
}
constexpr std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::kSmcr:
      return "smcr";
    case Transport::kTcp:
      return "tcp";
    case Transport::kShort:
      return "short";
  }
  return "";
}

}  // namespace fairlead
