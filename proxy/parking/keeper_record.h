// The protocol between a proxy and its pod's keeper: records of 32 bytes over a Unix socket of type
// SOCK_SEQPACKET, some with descriptors. The proxy listens, the keeper connects.
//
//   keeper                                proxy
//   kHello: what it takes, and whether
//     it holds something for this pod
//   kParcel, kDescriptors…         ->
//                                  <-     kTaken, or kRefused: the keeper drops it, or waits
//   kPark: end now, please         ->
//                                  <-     kOffer: how much it is going to park
//   kAccepted, or kRefused         ->
//                                  <-     kFetch, or kParcel, kDescriptors…
//   kTaken, or kRefused            ->
//
// The proxy makes its offer while its connections continue: if the keeper does not answer, or
// refuses, they simply go on. A keeper that fetches takes the descriptors out of the proxy with
// pidfd_getfd(2). Then none is in flight; the kernel would count that for the proxy's user id,
// which other pods share.
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

// The keeper's socket, in the abstract socket namespace of the pod.
inline constexpr const char* kKeeperSocket = "@fairlead-keeper";

struct KeeperRecord {
  enum class Kind : std::uint8_t {
    kHello = 1,    // `count`: descriptors that it takes; `bytes` of description; flags
    kParcel,       // 1 descriptor: the description; `count` descriptors will follow
    kDescriptors,  // some of the descriptors
    kTaken,        // the parcel is complete; `count` as in kParcel
    kRefused,      // `refusal`
    kPark,         // the keeper asks the proxy to park, as SIGTERM does
    kOffer = 10,   // announces `count` descriptors; 1 descriptor as a test, unless it fetches
    kAccepted,     // room for `count` descriptors is reserved
    kFetch,        // as kParcel, by descriptor numbers: `description`, `table`
  };
  // The reason of kRefused.
  enum class Refusal : std::uint8_t {
    kNone = 0,
    kDescriptors,  // more than the keeper takes
    kBytes,        // a longer description than the keeper takes
    kVersion,      // the proxy does not understand the description
    kMalformed,    // not as announced
    kBusy,         // another parcel is in hand
    kNotFetched,   // the keeper may not fetch the descriptors
    kShare,        // the limit of descriptors of all pods together is reached
  };
  Kind kind = Kind::kHello;
  Refusal refusal = Refusal::kNone;
  bool holds = false;           // kHello: a parcel follows
  bool answers_offers = false;  // kHello: the keeper understands kOffer
  bool fetches = false;         // kHello: the keeper understands kFetch, and may fetch
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  // kFetch: descriptor numbers in the proxy. `table` is a sealed memory file with the numbers of
  // the `count` other descriptors, 4 bytes each.
  std::uint32_t description = 0, table = 0;
  friend bool operator==(const KeeperRecord&, const KeeperRecord&) = default;
};
const char* to_string(KeeperRecord::Refusal refusal);

inline constexpr std::size_t kKeeperRecordBytes = 32;
using KeeperRecordBytes = std::array<std::byte, kKeeperRecordBytes>;

KeeperRecordBytes encode(const KeeperRecord& record);
// A newer side may send a longer record. Errors: kTruncated, kMalformed, kUnsupported.
Result<KeeperRecord> decode_record(std::span<const std::byte> bytes);

}  // namespace fairlead::parking
