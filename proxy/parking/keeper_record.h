// What a proxy and the keeper of its pod tell each other: records of 32 bytes over a Unix socket of
// type SOCK_SEQPACKET, some with descriptors. The proxy listens, the keeper connects.
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
// The proxy offers while its connections still go on: if the keeper does not answer, or refuses,
// they go on. A keeper that fetches takes the descriptors out of the proxy by pidfd_getfd(2). So
// none is in flight, where the kernel counts it for the proxy's user id, which other pods share.
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
    kOffer = 10,   // a parcel of `count` descriptors will come; 1 descriptor, to see that it can
    kAccepted,     // room for `count` descriptors is reserved
    kFetch,        // as kParcel, by numbers: `description`, `table`
  };
  // Of kRefused.
  enum class Refusal : std::uint8_t {
    kNone = 0,
    kDescriptors,  // more than it takes
    kBytes,        // the same
    kVersion,      // the proxy does not understand the description
    kMalformed,    // not what was announced
    kBusy,         // another parcel is here
    kNotFetched,   // the keeper may not fetch the descriptors
    kShare,        // all pods together have as many descriptors there as they may
  };
  Kind kind = Kind::kHello;
  Refusal refusal = Refusal::kNone;
  bool holds = false;           // kHello: a parcel follows
  bool answers_offers = false;  // kHello: it understands kOffer
  bool fetches = false;         // kHello: it understands kFetch, and may fetch
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  // kFetch, descriptors of the proxy: the description, and a sealed memory file with the numbers of
  // the `count` others, 4 bytes each.
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
