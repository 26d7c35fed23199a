// Connection counts of a sidecar, queried at its admin socket in the pod's network namespace.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

// A longer or later answer counts as no answer.
inline constexpr std::size_t kSidecarAnswerBytesMax = 256 << 10;
inline constexpr Duration kSidecarAnswerMax = std::chrono::milliseconds(300);
// For all queries of a call, and the start of a thread.
inline constexpr Duration kSidecarCallMax = 3 * kSidecarAnswerMax;
inline constexpr std::size_t kSidecarReasonsMax = 16;  // of the connections over TCP

struct SidecarCounts {
  // Connections since it started. brief: ended before they had earned SMC-R.
  std::uint64_t smcr = 0, tcp = 0, brief = 0;
  std::uint64_t links = 0;  // active
  std::map<std::string, std::uint64_t> reasons;
  // What the sidecar took back from the previous process. All zero if there was none.
  struct HandOver {
    std::uint64_t kept = 0, lost = 0;  // connections
    std::uint64_t parked_nanoseconds = 0;
  } hand_over;
};

// Enters the network namespace at `netns` on the calling thread, if it is still that of `identity`,
// and queries a process of user `uid`. The process may send descriptors, whose close may block the
// thread: use PodCalls. Errors: kPermission for a listener of another user, kMalformed for a
// malformed answer or one with descriptors, kTimedOut, kExhausted, and those of the socket.
Result<SidecarCounts> ask_sidecar(const std::string& netns, const NetnsIdentity& identity,
                                  std::uint32_t uid);

// Asks in the same way whether the sidecar accepts connections. Errors as above; kMalformed too for
// a sidecar that does not accept any yet.
Result<void> ask_readiness(const std::string& netns, const NetnsIdentity& identity,
                           std::uint32_t uid);

// Parses the bodies of the answers to /stats and /fallbacks. Pure.
Result<SidecarCounts> parse_sidecar_counts(const std::string& stats, const std::string& fallbacks);

}  // namespace fairlead::cni::node
