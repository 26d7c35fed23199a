// One worker's share of the client-address map: which slot a connection to the application uses,
// and what its entry says. Slots are used again in the order in which they became free, so an entry
// outlives its connection for as long as possible: applications accept late.
//
// One thread, the worker's. Leases refer to it; it outlives them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include "base/address.h"
#include "bpf/client_address_map.h"

namespace fairlead::bpf {

class ClientAddressSlots;

// A slot, held as long as its connection. Its entry stays when the lease ends.
class ClientAddressLease {
 public:
  ClientAddressLease() = default;
  ClientAddressLease(ClientAddressLease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), slot_(other.slot_) {}
  ClientAddressLease& operator=(ClientAddressLease&& other) noexcept;
  ~ClientAddressLease() { release(); }
  explicit operator bool() const { return owner_ != nullptr; }
  std::uint32_t slot() const { return slot_; }
  void release();

  // Writes the entry, before connect(2): the client's address for a connection to `application`,
  // of the same family. Returns the address to bind the socket to.
  SocketAddress publish(const SocketAddress& client, const SocketAddress& application);
  // The same over IPv4 where that address could not be bound: this one has port 0, for the kernel
  // to choose at connect(2) and not before. set_source_port() follows.
  SocketAddress publish_without_port(const SocketAddress& client, const SocketAddress& application);
  void set_source_port(std::uint16_t port);

 private:
  friend class ClientAddressSlots;
  ClientAddressLease(ClientAddressSlots* owner, std::uint16_t slot) : owner_(owner), slot_(slot) {}

  SocketAddress publish_v4(const SocketAddress& client, const SocketAddress& application,
                           std::uint16_t source_port);
  std::uint32_t next_generation() const;
  std::uint16_t next_port() const;

  ClientAddressSlots* owner_ = nullptr;
  std::uint16_t slot_ = 0;
};

class ClientAddressSlots {
 public:
  // `worker` of `workers`, 64 at most; every worker has other slots. Generations go on where the
  // map's last writer stopped; a slot that was never used begins at random.
  ClientAddressSlots(ClientAddressMap map, unsigned worker, unsigned workers, std::uint64_t seed);
  ClientAddressSlots(const ClientAddressSlots&) = delete;
  ClientAddressSlots& operator=(const ClientAddressSlots&) = delete;

  // For a connection of this family. Nothing when no slot is free.
  std::optional<ClientAddressLease> take(sa_family_t family);

  // Whose slot it is, of so many workers.
  static std::size_t worker_of(std::uint32_t slot, std::size_t workers) {
    return slot == 0 ? 0 : (slot - 1) % workers;
  }
  // Nobody gets this slot any more, unless a lease of it ends.
  void withdraw(std::uint32_t slot);

  // From now on another map is used, in the place of one that is gone: its entries are copied.
  void move_to(ClientAddressMap map);

  std::size_t free() const { return free_[0].size() + free_[1].size(); }

 private:
  friend class ClientAddressLease;
  struct FreeSlot {
    std::uint16_t slot;
    std::uint32_t turn;  // in which it became free
  };
  void put_back(std::uint16_t slot);
  // Only the latter have a port of their own, which IPv6 needs.
  static std::size_t kind_of(std::uint32_t slot) {
    return slot >= FAIRLEAD_CLIENT_PORT_SLOT_FIRST ? 1 : 0;
  }

  ClientAddressMap map_;
  unsigned worker_;
  unsigned workers_;
  std::mt19937_64 random_;
  std::uint32_t state_ = 0;
  std::array<std::deque<FreeSlot>, 2> free_;  // by kind_of(), the oldest first
};

}  // namespace fairlead::bpf
