#include "parking/held_connections.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/linux/record_socket.h"
#include "base/log.h"
#include "parking/description.h"
#include "parking/keeper_record.h"

namespace fairlead::parking {

using Kind = KeeperRecord::Kind;

Result<std::unique_ptr<HeldConnections>> HeldConnections::create(std::uint32_t slots,
                                                                 std::string version) {
  EventDescriptor event = SMC_TRY(EventDescriptor::create());
  Ledger ledger = SMC_TRY(Ledger::create(slots));
  return std::unique_ptr<HeldConnections>(
      new HeldConnections(std::move(ledger), std::move(event), std::move(version)));
}

HeldConnections::HeldConnections(Ledger ledger, EventDescriptor event, std::string version)
    : ledger_(std::move(ledger)),
      event_(std::move(event)),
      version_(std::move(version)),
      slots_(ledger_.slots()) {
  for (std::uint32_t slot = ledger_.slots(); --slot > kLedgerHead;) free_.push_back(slot);
}

std::optional<std::uint32_t> HeldConnections::begin(int app, int net) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  ledger_.set_busy(slot);
  slots_[slot].sockets = {app, net};
  make_due(slot);
  return slot;
}

void HeldConnections::at_rest(std::uint32_t slot, const relay::ParkedSockets& state) {
  ledger_.set_at_rest(slot, encode_connection(state));
}

void HeldConnections::end(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  SMC_ASSERT(!slots_[slot].sockets.empty(), slot);
  ledger_.set_busy(slot);
  slots_[slot].sockets.clear();
  // One that the keeper has is free when the keeper knows that.
  if (slots_[slot].sent)
    make_due(slot);
  else if (!slots_[slot].due)
    free_.push_back(slot);
}

void HeldConnections::listener_opened(const SocketAddress& address, int socket) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back({address, socket});
  describe_listeners();
}

void HeldConnections::listener_closed(int socket) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const Listener& one) { return one.socket == socket; });
  describe_listeners();
}

// The keeper adds sockets to a slot, so it first forgets those that it has. The head is at rest
// when the keeper has the same sockets as the entry.
void HeldConnections::describe_listeners() {
  ledger_.set_busy(kLedgerHead);
  Slot& head = slots_[kLedgerHead];
  head.sockets.clear();
  for (const Listener& one : listeners_) head.sockets.push_back(one.socket);
  make_due(kLedgerHead);
}

void HeldConnections::record_listeners() {
  if (given_up_) return;
  std::vector<SocketAddress> addresses;
  for (const Listener& one : listeners_) addresses.push_back(one.address);
  const std::vector<std::byte> entry = encode_head(addresses, version_);
  if (entry.size() > kLedgerEntryBytesMax)
    LogEvent(LogLevel::kWarn, "hand_over", "not_kept")
        .field("listeners", std::uint64_t{listeners_.size()})
        .field("what", "too many listeners: all connections are reset if this process dies");
  ledger_.set_at_rest(kLedgerHead, entry);
}

void HeldConnections::make_due(std::uint32_t slot) {
  if (keeper_ < 0 || slots_[slot].due) return;
  slots_[slot].due = true;
  due_.push_back(slot);
  if (due_.size() == 1) event_.signal();
}

void HeldConnections::attach(int socket) {
  detach();
  const std::lock_guard lock(mutex_);
  keeper_ = socket;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (!slots_[slot].sockets.empty()) make_due(slot);
}

void HeldConnections::detach() {
  const std::lock_guard lock(mutex_);
  keeper_ = -1;
  ledger_sent_ = false;
  ledger_.set_busy(kLedgerHead);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) slots_[slot].sent = false;
  for (const std::uint32_t slot : std::exchange(due_, {})) {
    slots_[slot].due = false;
    if (slots_[slot].sockets.empty() && slot != kLedgerHead) free_.push_back(slot);
  }
}

Result<void> HeldConnections::advance() {
  (void)event_.take();
  for (;;) {
    const bool more = SMC_TRY(advance_some());
    if (!more) return {};
  }
}

// Workers wait for the lock meanwhile.
Result<bool> HeldConnections::advance_some() {
  const std::lock_guard lock(mutex_);
  if (keeper_ < 0) return false;
  if (!ledger_sent_) {
    KeeperRecord record;
    record.kind = Kind::kLedger;
    record.count = ledger_.slots();
    const int file = ledger_.descriptor();
    SMC_TRY(send_record(keeper_, encode(record), {&file, 1}));
    ledger_sent_ = true;
  }
  for (std::size_t sent = 0; !due_.empty() && sent < kSlotsAtOnce; ++sent) {
    SMC_TRY(send(due_.front()));
    due_.pop_front();
  }
  return !due_.empty();
}

Result<void> HeldConnections::send(std::uint32_t slot) {
  Slot& own = slots_[slot];
  KeeperRecord record;
  record.count = slot;
  if (own.sent) {
    record.kind = Kind::kRelease;
    SMC_TRY(send_record(keeper_, encode(record), {}));
    own.sent = false;
  }
  record.kind = Kind::kHold;
  const std::span<const int> all(own.sockets);
  for (std::size_t at = 0; at < all.size(); at += kRecordDescriptorsMax) {
    const auto part = all.subspan(at, std::min(kRecordDescriptorsMax, all.size() - at));
    // After a part of them, the keeper forgets them before it gets all again.
    SMC_TRY(send_record(keeper_, encode(record), part));
    own.sent = true;
  }
  own.due = false;
  if (slot == kLedgerHead)
    record_listeners();
  else if (own.sockets.empty())
    free_.push_back(slot);
  return {};
}

void HeldConnections::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  ledger_.set_busy(kLedgerHead);
}

}  // namespace fairlead::parking
