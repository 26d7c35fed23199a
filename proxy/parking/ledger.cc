#include "parking/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace fairlead::parking {
namespace {

constexpr std::uint32_t kMagic = 0x464c6c01;  // "FLl", version 1
constexpr std::uint32_t kBusy = 0, kAtRest = 1;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::size_t file_bytes(std::uint32_t slots) { return (std::size_t{slots} + 1) * kLedgerSlotBytes; }

off_t place_of(std::uint32_t slot) {
  return static_cast<off_t>((std::size_t{slot} + 1) * kLedgerSlotBytes);
}

bool read_exactly(int file, off_t at, void* into, std::size_t bytes) {
  ssize_t n;
  do n = ::pread(file, into, bytes, at);
  while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(bytes);
}

}  // namespace

Result<Ledger> Ledger::create(std::uint32_t slots) {
  SMC_ASSERT(slots >= 1 && slots <= kLedgerSlotsMax, slots);
  FileDescriptor file(::memfd_create("fairlead-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return system_error("memfd_create", errno);
  const std::size_t bytes = file_bytes(slots);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return system_error("ftruncate", errno);
  if (::fcntl(file.get(), F_ADD_SEALS, kSizeSeals) != 0) return system_error("F_ADD_SEALS", errno);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return system_error("mmap", errno);
  const std::array<std::uint32_t, 3> header = {kMagic, kLedgerSlotBytes, slots};
  std::memcpy(memory, header.data(), sizeof header);
  return Ledger(std::move(file), static_cast<std::byte*>(memory), slots);
}

Ledger::Ledger(Ledger&& other) noexcept
    : file_(std::move(other.file_)),
      memory_(std::exchange(other.memory_, nullptr)),
      slots_(other.slots_) {}

Ledger::~Ledger() {
  if (memory_ != nullptr) (void)::munmap(memory_, file_bytes(slots_));
}

std::byte* Ledger::at(std::uint32_t slot) const {
  SMC_ASSERT(slot < slots_, slot, slots_);
  return memory_ + place_of(slot);
}

// Nobody reads the file until this process is gone, so only the order of our own stores counts.
void Ledger::set_busy(std::uint32_t slot) noexcept {
  auto& state = *reinterpret_cast<std::uint32_t*>(at(slot));
  std::atomic_ref(state).store(kBusy, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Ledger::set_at_rest(std::uint32_t slot, std::span<const std::byte> entry) noexcept {
  set_busy(slot);
  if (entry.size() > kLedgerEntryBytesMax) return;
  std::byte* const begin = at(slot);
  const auto length = static_cast<std::uint32_t>(entry.size());
  std::memcpy(begin + sizeof length, &length, sizeof length);
  std::memcpy(begin + 2 * sizeof length, entry.data(), entry.size());
  auto& state = *reinterpret_cast<std::uint32_t*>(begin);
  std::atomic_ref(state).store(kAtRest, std::memory_order_release);
}

bool is_ledger(int file, std::uint32_t slots) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return false;
  struct stat status {};
  std::array<std::uint32_t, 3> header{};
  return slots >= 1 && slots <= kLedgerSlotsMax && ::fstat(file, &status) == 0 &&
         static_cast<std::size_t>(status.st_size) == file_bytes(slots) &&
         read_exactly(file, 0, header.data(), sizeof header) && header[0] == kMagic &&
         header[1] == kLedgerSlotBytes && header[2] == slots;
}

std::optional<std::vector<std::byte>> read_ledger(int file, std::uint32_t slot) {
  std::array<std::uint32_t, 2> head{};
  if (!read_exactly(file, place_of(slot), head.data(), sizeof head)) return std::nullopt;
  if (head[0] != kAtRest || head[1] > kLedgerEntryBytesMax) return std::nullopt;
  std::vector<std::byte> entry(head[1]);
  const off_t at = place_of(slot) + static_cast<off_t>(sizeof head);
  if (!read_exactly(file, at, entry.data(), entry.size())) return std::nullopt;
  return entry;
}

}  // namespace fairlead::parking
