// What a proxy writes about its connections while it lives, in a memory file that outlives it: one
// slot a connection. A slot says whether its connection is at rest, and how it would be described
// then. The proxy marks a slot as busy before it moves bytes of the connection. So whatever ends
// the process, a slot at rest is true.
//
// The bytes of a slot are part of a description (parking/description.h): those of all slots, one
// behind the other, are one. Slot 0 is the head, with the listeners. The keeper does not read them.
//
//   header     magic, bytes of a slot, slots: three numbers of 4 bytes; the rest of a slot is
//   unused slot       state, length: two numbers of 4 bytes; then the bytes
//
// Numbers have the order of the machine: the file never leaves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::parking {

inline constexpr std::size_t kLedgerSlotBytes = 1024;
inline constexpr std::uint32_t kLedgerSlotsMax = 16'384;
inline constexpr std::size_t kLedgerEntryBytesMax = kLedgerSlotBytes - 8;
inline constexpr std::uint32_t kLedgerHead = 0;  // a slot

// The proxy's side. One slot belongs to one thread at a time.
class Ledger {
 public:
  // REQUIRES: 1 <= slots <= kLedgerSlotsMax
  static Result<Ledger> create(std::uint32_t slots);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&&) = delete;
  ~Ledger();

  int descriptor() const { return file_.get(); }
  std::uint32_t slots() const { return slots_; }
  void set_busy(std::uint32_t slot) noexcept;
  // A slot with more than kLedgerEntryBytesMax bytes stays busy.
  void set_at_rest(std::uint32_t slot, std::span<const std::byte> entry) noexcept;

 private:
  Ledger(FileDescriptor file, std::byte* memory, std::uint32_t slots)
      : file_(std::move(file)), memory_(memory), slots_(slots) {}
  std::byte* at(std::uint32_t slot) const;

  FileDescriptor file_;
  std::byte* memory_;  // one slot of header, then the slots
  std::uint32_t slots_;
};

// The keeper's side. The file is a stranger's.
//
// Nothing when the file is not what create() makes.
bool is_ledger(int file, std::uint32_t slots);
// A copy of the entry of a slot at rest; nothing for one that is busy. Somebody may still write the
// file: the copy is then anything. REQUIRES: is_ledger()
std::optional<std::vector<std::byte>> read_ledger(int file, std::uint32_t slot);

}  // namespace fairlead::parking
