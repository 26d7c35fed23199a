#include "bpf/client_address_slots.h"

#include <numeric>

#include "base/assert.h"

namespace fairlead::bpf {
namespace {

constexpr std::uint32_t kSourcePorts = FAIRLEAD_CLIENT_SLOTS - FAIRLEAD_CLIENT_PORT_SLOT_FIRST;
static_assert(FAIRLEAD_CLIENT_PORT_FIRST + kSourcePorts == 65536);
// Address and port of a slot come again together only after all pairs.
static_assert(std::gcd(FAIRLEAD_CLIENT_GENERATIONS, kSourcePorts) == 1);

std::uint16_t source_port(std::uint64_t index) {
  return static_cast<std::uint16_t>(FAIRLEAD_CLIENT_PORT_FIRST + index % kSourcePorts);
}

}  // namespace

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

std::uint32_t ClientAddressLease::next_generation() const {
  const fairlead_client_entry& entry = owner_->map_.entry(slot_);
  return static_cast<std::uint32_t>(is_unused(entry)
                                        ? owner_->random_() % FAIRLEAD_CLIENT_GENERATIONS
                                        : (generation_of(entry) + 1) % FAIRLEAD_CLIENT_GENERATIONS);
}

// Over IPv4 the address tells slots apart, and the port says more about an address that comes
// again.
std::uint16_t ClientAddressLease::next_port() const {
  const std::uint16_t last = source_port_of(owner_->map_.entry(slot_));
  return source_port(last < FAIRLEAD_CLIENT_PORT_FIRST ? owner_->random_()
                                                       : last - FAIRLEAD_CLIENT_PORT_FIRST + 1U);
}

SocketAddress ClientAddressLease::publish(const SocketAddress& client,
                                          const SocketAddress& application) {
  SMC_ASSERT(owner_ != nullptr);
  SMC_ASSERT(client.family() == application.family());
  if (!application.is_v6()) return publish_v4(client, application, next_port());
  ClientAddressClaim claim;
  claim.state = FAIRLEAD_CLIENT_IPV6;
  claim.client = client;
  claim.application_port = application.port();
  claim.generation = next_generation();
  claim.source_port = source_port(slot_ - FAIRLEAD_CLIENT_PORT_SLOT_FIRST);
  fairlead::bpf::publish(owner_->map_.entry(slot_), claim);
  return application.with_port(claim.source_port);
}

SocketAddress ClientAddressLease::publish_without_port(const SocketAddress& client,
                                                       const SocketAddress& application) {
  SMC_ASSERT(owner_ != nullptr);
  SMC_ASSERT(client.family() == application.family());
  return publish_v4(client, application, 0);
}

SocketAddress ClientAddressLease::publish_v4(const SocketAddress& client,
                                             const SocketAddress& application,
                                             std::uint16_t source_port) {
  ClientAddressClaim claim;
  claim.client = client;
  claim.application_port = application.port();
  claim.generation = next_generation();
  claim.source_port = source_port;
  fairlead::bpf::publish(owner_->map_.entry(slot_), claim);
  in_addr source{};
  source.s_addr =
      htonl(FAIRLEAD_CLIENT_BLOCK | claim.generation << FAIRLEAD_CLIENT_SLOT_BITS | slot_);
  return {source, source_port};
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

void ClientAddressSlots::withdraw(std::uint32_t slot) {
  if (slot >= FAIRLEAD_CLIENT_SLOTS) return;
  std::erase_if(free_[kind_of(slot)], [slot](const FreeSlot& at) { return at.slot == slot; });
}

void ClientAddressSlots::move_to(ClientAddressMap map) {
  for (std::uint32_t slot = 1 + worker_; slot < FAIRLEAD_CLIENT_SLOTS; slot += workers_)
    copy(map_.entry(slot), map.entry(slot));
  map_ = std::move(map);
}

}  // namespace fairlead::bpf
