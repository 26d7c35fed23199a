// What a proxy and the keeper of its pod tell each other: records of 32 bytes over a Unix socket of
// type SOCK_SEQPACKET, some with descriptors. The proxy listens, the keeper connects.
//
//   keeper                                proxy
//   kHello: what it takes, and whether
//     it holds something for this pod
//   kParcel, kDescriptors…         ->
//                                  <-     kTaken, or kRefused: the keeper drops it, or waits
//   kPark: end now, please         ->
//                                  <-     kParcel, kDescriptors…
//   kTaken, or kRefused            ->
//
// With `hand_over.mode: always`, a keeper that says `holds_living` has the sockets from the
// beginning, and makes a parcel of them when the proxy dies:
//
//                                  <-     kLedger, then kHold for each connection
//                                  <-     kRelease when one has ended
//
// A parcel is a memory file with the description (parking/description.h), and descriptors that the
// keeper does not look at. docs/hand-over.md has the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace fairlead::parking {

// In the abstract namespace of the pod's network namespace.
inline constexpr const char* kKeeperSocket = "@fairlead-keeper";

struct KeeperRecord {
  enum class Kind : std::uint8_t {
    kHello = 1,    // `count`: descriptors that it takes; `bytes` of description; `flags`
    kParcel,       // 1 descriptor: the description; `count` descriptors follow, `bytes` long
    kDescriptors,  // some of them
    kTaken,        // the parcel is whole; `count` as in kParcel
    kRefused,      // `refusal`
    kPark,         // the keeper asks the proxy to park, as SIGTERM does
    kLedger,       // 1 descriptor: parking/ledger.h; with `count` slots
    kHold,         // the sockets of the slot `count`, behind those that it has
    kRelease,      // the slot `count` has no sockets any more
  };
  // Of kRefused.
  enum class Refusal : std::uint8_t {
    kNone = 0,
    kDescriptors,  // more than it takes
    kBytes,        // the same
    kVersion,      // the proxy does not understand the description
    kMalformed,    // not what was announced
    kBusy,         // another parcel is here
  };
  Kind kind = Kind::kHello;
  Refusal refusal = Refusal::kNone;
  bool holds = false;         // kHello: a parcel follows
  bool holds_living = false;  // kHello: a ledger is welcome
  bool died = false;          // kParcel: the proxy that had the connections has not parked them
  std::uint32_t lost = 0;     // kParcel: connections that were reset when it died
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t died_nanoseconds = 0;  // kParcel: when it died, CLOCK_MONOTONIC
  friend bool operator==(const KeeperRecord&, const KeeperRecord&) = default;
};
const char* to_string(KeeperRecord::Refusal refusal);

inline constexpr std::size_t kKeeperRecordBytes = 32;
using KeeperRecordBytes = std::array<std::byte, kKeeperRecordBytes>;

KeeperRecordBytes encode(const KeeperRecord& record);
// A newer side may send a longer record. Errors: kTruncated, kMalformed, kUnsupported.
Result<KeeperRecord> decode_record(std::span<const std::byte> bytes);

}  // namespace fairlead::parking
