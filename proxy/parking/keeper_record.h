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
  bool holds = false;  // kHello: a parcel follows
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const KeeperRecord&, const KeeperRecord&) = default;
};
const char* to_string(KeeperRecord::Refusal refusal);

inline constexpr std::size_t kKeeperRecordBytes = 32;
using KeeperRecordBytes = std::array<std::byte, kKeeperRecordBytes>;

KeeperRecordBytes encode(const KeeperRecord& record);
// A newer side may send a longer record. Errors: kTruncated, kMalformed, kUnsupported.
Result<KeeperRecord> decode_record(std::span<const std::byte> bytes);

}  // namespace fairlead::parking
