// The array in which the proxy tells the client-address programs (client_address.bpf.c) whose
// address to report for which socket. Mapped into memory: a proxy without privileges writes it
// without bpf(2).
#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/result.h"
#include "bpf/client_address.h"

namespace fairlead::bpf {

class ClientAddressMap {
 public:
  // `map_fd` may come from another process and is not trusted: errors are kMalformed for anything
  // but an array of the size and flags that client_address.h names, kSystem when it cannot be
  // mapped. The descriptor is needed no longer afterwards.
  static Result<ClientAddressMap> open(int map_fd);

  ClientAddressMap(ClientAddressMap&& other) noexcept;
  ClientAddressMap& operator=(ClientAddressMap&& other) noexcept;
  ~ClientAddressMap();

  // Not for two threads at one slot. `slot` is below FAIRLEAD_CLIENT_SLOTS.
  fairlead_client_entry& entry(std::uint32_t slot) { return entries_[slot]; }

 private:
  explicit ClientAddressMap(fairlead_client_entry* entries) : entries_(entries) {}
  fairlead_client_entry* entries_ = nullptr;
};

// The kernel's number of a map, from the descriptor alone.
Result<std::uint32_t> map_id(int map_fd);

// What an entry says.
struct ClientAddressClaim {
  std::uint32_t state = FAIRLEAD_CLIENT_IPV4;  // or FAIRLEAD_CLIENT_IPV6
  std::uint32_t generation = 0;
  SocketAddress client;
  std::uint16_t source_port = 0;       // of the proxy's socket; 0: not known yet
  std::uint16_t application_port = 0;  // where the proxy connects to
};

// Writes the entry so that a reader sees the old claim, the new one, or that it changes.
void publish(fairlead_client_entry& entry, const ClientAddressClaim& claim);
// Adds the source port to what publish() wrote.
void publish_source_port(fairlead_client_entry& entry, std::uint16_t source_port);

// The same claim in another map.
void copy(const fairlead_client_entry& from, fairlead_client_entry& to);

std::uint16_t source_port_of(const fairlead_client_entry& entry);
std::uint32_t generation_of(const fairlead_client_entry& entry);
bool is_unused(const fairlead_client_entry& entry);

}  // namespace fairlead::bpf
