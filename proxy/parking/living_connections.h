// The keeper's side of `hand_over.mode: always`: the ledger of a living proxy, and the sockets of
// its connections. They are a stranger's.
//
// One thread, the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "parking/keeper_record.h"
#include "parking/parcel.h"

namespace fairlead::parking {

class LivingConnections {
 public:
  // What came with KeeperRecord::Kind::kLedger. Errors: kMalformed.
  static Result<LivingConnections> of(const KeeperRecord& record,
                                      std::span<ForeignDescriptor> descriptors);

  // kHold or kRelease. Sockets beyond `descriptors_max` are not held. Errors: kMalformed.
  Result<void> take(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors,
                    std::uint32_t descriptors_max);
  std::uint32_t descriptors() const { return count_; }

  struct Remains {
    std::unique_ptr<Parcel> parcel;  // null if nothing can go on
    std::uint32_t reset = 0;         // connections
    bool died = false;               // it has neither ended in order nor before it listened
  };
  // The proxy has gone. Our copies of connections that were not at rest, or whose entries are
  // beyond so many bytes, are closed now: a proxy that has died has seen to it that this resets
  // them. Makes no system call that a stranger's socket could block, but for the closer's.
  Remains remains(TimePoint died, std::uint64_t bytes_max) &&;

 private:
  struct Slot {
    std::vector<ForeignDescriptor> sockets;
    bool whole = true;  // none was left out
  };
  LivingConnections(ForeignDescriptor ledger, std::uint32_t slots)
      : ledger_(std::move(ledger)), slot_count_(slots) {}

  ForeignDescriptor ledger_;
  std::uint32_t slot_count_;
  std::map<std::uint32_t, Slot> slots_;  // with sockets
  std::uint32_t count_ = 0;              // of sockets
};

}  // namespace fairlead::parking
