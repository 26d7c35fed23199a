#include "bpf/client_address_slots.h"

#include "base/assert.h"

namespace fairlead::bpf {

ClientAddressLease& ClientAddressLease::operator=(ClientAddressLease&& other) noexcept {
  if (this == &other) return *this;
  release();
  owner_ = std::exchange(other.owner_, nullptr);
  slot_ = other.slot_;
  return *this;
}

void ClientAddressLease::release() {
  if (owner_ == nullptr) return;
  owner_->put_back(slot_);
  owner_ = nullptr;
}

SocketAddress ClientAddressLease::publish(const SocketAddress& client,
                                          const SocketAddress& application) {
  SMC_ASSERT(owner_ != nullptr);
  SMC_ASSERT(client.family() == application.family());
  fairlead_client_entry& entry = owner_->map_.entry(slot_);
  ClientAddressClaim claim;
  claim.client = client;
  claim.application_port = application.port();
  claim.generation = static_cast<std::uint32_t>(
      is_unused(entry) ? owner_->random_() % FAIRLEAD_CLIENT_GENERATIONS
                       : (generation_of(entry) + 1) % FAIRLEAD_CLIENT_GENERATIONS);
  if (application.is_v6()) {
    claim.state = FAIRLEAD_CLIENT_IPV6;
    claim.source_port = static_cast<std::uint16_t>(FAIRLEAD_CLIENT_PORT_FIRST + slot_ -
                                                   FAIRLEAD_CLIENT_PORT_SLOT_FIRST);
    fairlead::bpf::publish(entry, claim);
    return application.with_port(claim.source_port);
  }
  fairlead::bpf::publish(entry, claim);
  in_addr source{};
  source.s_addr =
      htonl(FAIRLEAD_CLIENT_BLOCK | claim.generation << FAIRLEAD_CLIENT_SLOT_BITS | slot_);
  return {source, 0};
}

void ClientAddressLease::set_source_port(std::uint16_t port) {
  SMC_ASSERT(owner_ != nullptr);
  publish_source_port(owner_->map_.entry(slot_), port);
}

ClientAddressSlots::ClientAddressSlots(ClientAddressMap map, unsigned worker, unsigned workers,
                                       std::uint64_t seed)
    : map_(std::move(map)), worker_(worker), workers_(workers), random_(seed) {
  SMC_ASSERT(worker < workers, worker);
  static_assert(FAIRLEAD_CLIENT_PROBE_SLOT == 0);
  for (std::uint32_t slot = 1 + worker; slot < FAIRLEAD_CLIENT_SLOTS; slot += workers)
    put_back(static_cast<std::uint16_t>(slot));
}

void ClientAddressSlots::put_back(std::uint16_t slot) {
  free_[kind_of(slot)].push_back({slot, state_++});
}

std::optional<ClientAddressLease> ClientAddressSlots::take(sa_family_t family) {
  const auto& [without_port, with_port] = free_;
  // Turns wrap around: only their difference means something.
  const bool first = !without_port.empty() &&
                     (with_port.empty() || static_cast<std::int32_t>(without_port.front().turn -
                                                                     with_port.front().turn) < 0);
  const std::size_t kind = family == AF_INET && first ? 0 : 1;
  if (free_[kind].empty()) return std::nullopt;
  const std::uint16_t slot = free_[kind].front().slot;
  free_[kind].pop_front();
  return ClientAddressLease(this, slot);
}

void ClientAddressSlots::move_to(ClientAddressMap map) {
  for (std::uint32_t slot = 1 + worker_; slot < FAIRLEAD_CLIENT_SLOTS; slot += workers_)
    copy(map_.entry(slot), map.entry(slot));
  map_ = std::move(map);
}

}  // namespace fairlead::bpf
