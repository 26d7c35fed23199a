// The proxy's side of `hand_over.mode: always`: the ledger of its connections, and what the keeper
// has still to be told of their sockets.
//
// Workers call the methods of relay::LastingRecord, the thread of ProxyKeeper the others. The first
// take a lock for a moment; busy() and at_rest() take none.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/linux/event_descriptor.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "parking/ledger.h"
#include "parking/proxy_keeper.h"
#include "relay/worker/lasting_record.h"

namespace fairlead::parking {

// The keeper is told of a new connection after so long: most have ended by then.
inline constexpr Duration kHoldDelay = std::chrono::milliseconds(10);

// Slots of which the keeper is told before workers may have the lock.
inline constexpr std::size_t kSlotsAtOnce = 64;

class HeldConnections final : public relay::LastingRecord, public LivingSource {
 public:
  // `version`: of the proxy, for people. REQUIRES: as Ledger::create()
  static Result<std::unique_ptr<HeldConnections>> create(std::uint32_t slots, std::string version);

  std::optional<std::uint32_t> begin(int app, int net) override;
  void busy(std::uint32_t slot) override { ledger_.set_busy(slot); }
  void at_rest(std::uint32_t slot, const relay::ParkedSockets& state) override;
  void end(std::uint32_t slot) override;
  void listener_opened(const SocketAddress& address, int socket) override;
  void listener_closed(int socket) override;

  int event() const override { return event_.get(); }
  Duration delay() const override { return kHoldDelay; }
  void attach(int socket) override;
  void detach() override;
  Result<void> advance() override;
  // The process ends in order: what is left is not for a next one.
  void give_up();

 private:
  struct Slot {
    std::vector<int> sockets;  // none: free, or to be released
    bool sent = false;         // the keeper has them
    bool due = false;          // in due_
  };
  struct Listener {
    SocketAddress address;
    int socket;
  };

  HeldConnections(Ledger ledger, EventDescriptor event, std::string version);
  void make_due(std::uint32_t slot);
  void describe_listeners();
  void record_listeners();
  Result<bool> advance_some();
  Result<void> send(std::uint32_t slot);

  Ledger ledger_;
  EventDescriptor event_;
  std::string version_;
  std::mutex mutex_;  // of all below
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> due_;
  std::vector<Listener> listeners_;
  int keeper_ = -1;
  bool ledger_sent_ = false;
  bool given_up_ = false;
};

}  // namespace fairlead::parking
