#include "parking/living_connections.h"

#include <utility>

#include "parking/ledger.h"

namespace fairlead::parking {
namespace {

using Kind = KeeperRecord::Kind;

}  // namespace

Result<LivingConnections> LivingConnections::of(const KeeperRecord& record,
                                                std::span<ForeignDescriptor> descriptors) {
  if (descriptors.size() != 1 || !is_ledger(descriptors[0].get(), record.count))
    return Error{Errc::kMalformed, "keeper record: no ledger"};
  return LivingConnections(std::move(descriptors[0]), record.count);
}

Result<void> LivingConnections::take(const KeeperRecord& record,
                                     std::span<ForeignDescriptor> descriptors,
                                     std::uint32_t descriptors_max) {
  if (record.count >= slot_count_)
    return Error{Errc::kMalformed, "keeper record: a slot behind the ledger"};
  if (record.kind == Kind::kRelease) {
    const auto found = slots_.find(record.count);
    if (found == slots_.end() || !descriptors.empty())
      return Error{Errc::kMalformed, "keeper record: a slot that holds nothing"};
    count_ -= static_cast<std::uint32_t>(found->second.sockets.size());
    slots_.erase(found);
    return {};
  }
  if (descriptors.empty()) return Error{Errc::kMalformed, "keeper record: nothing to hold"};
  Slot& slot = slots_[record.count];
  for (ForeignDescriptor& descriptor : descriptors) {
    slot.whole = slot.whole && count_ < descriptors_max;
    if (!slot.whole) return {};
    slot.sockets.push_back(std::move(descriptor));
    ++count_;
  }
  return {};
}

LivingConnections::Remains LivingConnections::remains(TimePoint died, std::uint64_t bytes_max) && {
  Remains remains;
  std::vector<std::byte> description;
  auto parcel = std::make_unique<Parcel>();
  bool has_head = false;
  for (auto& [number, slot] : slots_) {
    const bool head = number == kLedgerHead;
    auto entry = slot.whole ? read_ledger(ledger_.get(), number) : std::nullopt;
    if (head) remains.died = entry.has_value();
    if (!remains.died) break;
    const bool fits = entry && description.size() + entry->size() <= bytes_max;
    if (head) has_head = fits;
    // Without listeners the next proxy would not know that there is something to wait for.
    if (!fits || !has_head) {
      if (!head) ++remains.reset;
      continue;
    }
    description.insert(description.end(), entry->begin(), entry->end());
    for (ForeignDescriptor& socket : slot.sockets) parcel->descriptors.push_back(std::move(socket));
  }
  slots_.clear();
  if (!has_head) return remains;
  Result<FileDescriptor> file = seal_description(description);
  if (!file) return remains;
  parcel->description = ForeignDescriptor(std::move(*file));
  parcel->bytes = description.size();
  const auto since = std::chrono::nanoseconds(died.time_since_epoch()).count();
  parcel->death = Death{remains.reset, static_cast<std::uint64_t>(since)};
  remains.parcel = std::move(parcel);
  return remains;
}

}  // namespace fairlead::parking
