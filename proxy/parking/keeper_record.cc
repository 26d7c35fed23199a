#include "parking/keeper_record.h"

#include <algorithm>

#include "base/assert.h"
#include "base/record_fields.h"

namespace fairlead::parking {
namespace {

constexpr std::array<std::byte, 4> kName = {std::byte{'F'}, std::byte{'L'}, std::byte{'k'},
                                            std::byte{1}};
constexpr std::size_t kKindAt = 4, kRefusalAt = 5, kFlagsAt = 6, kMoreFlagsAt = 7;
constexpr std::size_t kCountAt = 8, kDescriptionAt = 12, kBytesAt = 16, kTableAt = 24;
constexpr std::byte kHolds{1};
constexpr std::byte kAnswersOffers{4}, kFetches{8};  // 1 and 2 had earlier meanings

// Numbers between these two had earlier meanings.
constexpr auto kLastBeforeGap = static_cast<std::uint8_t>(KeeperRecord::Kind::kPark);
constexpr auto kFirstBehindGap = static_cast<std::uint8_t>(KeeperRecord::Kind::kOffer);

}  // namespace

const char* to_string(KeeperRecord::Refusal refusal) {
  switch (refusal) {
    case KeeperRecord::Refusal::kNone:
      return "none";
    case KeeperRecord::Refusal::kDescriptors:
      return "more descriptors than the keeper takes";
    case KeeperRecord::Refusal::kBytes:
      return "a longer description than the keeper takes";
    case KeeperRecord::Refusal::kVersion:
      return "a description of another version";
    case KeeperRecord::Refusal::kMalformed:
      return "a malformed parcel";
    case KeeperRecord::Refusal::kBusy:
      return "another parcel of this pod is kept";
    case KeeperRecord::Refusal::kNotFetched:
      return "the keeper could not fetch the descriptors";
    case KeeperRecord::Refusal::kShare:
      return "the keeper's share of descriptors for all pods is used up";
  }
  SMC_ASSERT(false, refusal);
}

KeeperRecordBytes encode(const KeeperRecord& record) {
  KeeperRecordBytes bytes{};
  std::copy(kName.begin(), kName.end(), bytes.begin());
  bytes[kKindAt] = static_cast<std::byte>(record.kind);
  bytes[kRefusalAt] = static_cast<std::byte>(record.refusal);
  bytes[kFlagsAt] = record.holds ? kHolds : std::byte{};
  bytes[kMoreFlagsAt] = (record.answers_offers ? kAnswersOffers : std::byte{}) |
                        (record.fetches ? kFetches : std::byte{});
  put_field(bytes, kCountAt, record.count);
  put_field(bytes, kDescriptionAt, record.description);
  put_field(bytes, kBytesAt, record.bytes);
  put_field(bytes, kTableAt, record.table);
  return bytes;
}

Result<KeeperRecord> decode_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kKeeperRecordBytes) return Error{Errc::kTruncated, "keeper record"};
  if (!std::equal(kName.begin(), kName.end() - 1, bytes.begin()))
    return Error{Errc::kMalformed, "keeper record: another protocol"};
  if (bytes[kName.size() - 1] != kName.back())
    return Error{Errc::kUnsupported, "keeper record: another version"};
  const auto kind = std::to_integer<std::uint8_t>(bytes[kKindAt]);
  const auto refusal = std::to_integer<std::uint8_t>(bytes[kRefusalAt]);
  if (kind < static_cast<std::uint8_t>(KeeperRecord::Kind::kHello) ||
      (kind > kLastBeforeGap && kind < kFirstBehindGap) ||
      kind > static_cast<std::uint8_t>(KeeperRecord::Kind::kFetch))
    return Error{Errc::kMalformed, "keeper record: kind"};
  if (refusal > static_cast<std::uint8_t>(KeeperRecord::Refusal::kShare))
    return Error{Errc::kMalformed, "keeper record: refusal"};
  KeeperRecord record;
  record.kind = static_cast<KeeperRecord::Kind>(kind);
  record.refusal = static_cast<KeeperRecord::Refusal>(refusal);
  record.holds = (bytes[kFlagsAt] & kHolds) != std::byte{};
  record.answers_offers = (bytes[kMoreFlagsAt] & kAnswersOffers) != std::byte{};
  record.fetches = (bytes[kMoreFlagsAt] & kFetches) != std::byte{};
  record.description = get_field<std::uint32_t>(bytes, kDescriptionAt);
  record.table = get_field<std::uint32_t>(bytes, kTableAt);
  record.count = get_field<std::uint32_t>(bytes, kCountAt);
  record.bytes = get_field<std::uint64_t>(bytes, kBytesAt);
  return record;
}

}  // namespace fairlead::parking
