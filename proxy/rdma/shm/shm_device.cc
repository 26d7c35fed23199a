#include "rdma/shm/shm_device.h"

#include <sys/random.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/queue/shm_queue_pair.h"
#include "rdma/shm/queue/shm_receive_queue.h"

namespace fairlead::rdma::shm {
namespace {

constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::uint32_t kPsnStride = 0x9e3779;  // consecutive queue pairs start far apart
constexpr std::uint8_t kLocalMac = 0x02;        // locally administered, unicast

std::vector<Port> make_ports(FabricId fabric, const ShmOptions& options) {
  std::vector<Port> ports;
  for (unsigned i = 1; i <= options.ports; ++i) {
    Port port;
    port.number = PortNumber(static_cast<std::uint8_t>(i));
    port.state = PortState::kActive;
    port.gid = gid_of(fabric, port.number, options.peer_id);
    port.mac.bytes[0] = kLocalMac;
    std::copy_n(options.peer_id.bytes.end() - 4, 4, port.mac.bytes.begin() + 1);
    port.mac.bytes[5] = port.number.value;
    port.mtu = Mtu::k4096;
    ports.push_back(port);
  }
  return ports;
}

Capabilities capabilities_of(const ShmOptions& options) {
  return {.remote_memory_addressable = options.addressable,
          .returns_pages = options.addressable && !strict_overcommit(),
          .own_kind_only = true,
          .receive_queue_crosses_domains = true,
          .send_requests_max = kSendRequestsMax,
          .receive_requests_max = kReceiveRequestsMax};
}

Result<void> check(const ShmOptions& options) {
  if (options.ports >= 1 && options.ports <= kPortsMax && !options.peer_id.is_zero()) return {};
  return Error{Errc::kUnsupported, "ports or peer id of a shared-memory device"};
}

}  // namespace

Result<std::unique_ptr<ShmDevice>> ShmDevice::open(const ShmOptions& options,
                                                   std::unique_ptr<Connector> connector) {
  SMC_TRY(check(options));
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return system_error("getrandom", errno);
  FileDescriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return system_error("timerfd_create", errno);
  auto ports = make_ports(connector->id(), options);
  return std::unique_ptr<ShmDevice>(
      new ShmDevice(options, std::move(connector), std::move(timer), random, std::move(ports)));
}

ShmDevice::ShmDevice(const ShmOptions& options, std::unique_ptr<Connector> connector,
                     FileDescriptor timer, std::uint32_t random, std::vector<Port> own_ports)
    : name_(options.name),
      capabilities_(capabilities_of(options)),
      random_(random),
      parts_(std::move(connector), std::move(timer), random, std::move(own_ports),
             options.addressable) {
  parts_.wait_limits = options.wait_limits;
}

bool ShmDevice::reachable(const Gid& gid) const {
  const auto parsed = shm::parse_gid(gid);
  if (!parsed || parsed->fabric != fabric()) return false;
  return parts_.channels.find_open(parsed->peer) != nullptr ||
         parts_.channels.connector().may_reach(parsed->peer);
}

bool ShmDevice::take_port(PortNumber port, PortState state) {
  if (port.value == 0 || port.value > ports().size()) return false;
  set_port_state(port, state);
  return true;
}

Result<std::unique_ptr<ProtectionDomain>> ShmDevice::create_protection_domain() {
  const DomainId id(random_ + domains_made_++);
  return std::unique_ptr<ProtectionDomain>(std::make_unique<ShmDomain>(*this, id));
}

Result<std::unique_ptr<SharedReceiveQueue>> ShmDevice::create_shared_receive_queue(
    ProtectionDomain&, std::uint32_t requests_max) {
  if (requests_max == 0 || requests_max > kReceiveRequestsMax)
    return Error{Errc::kExhausted, "receive requests"};
  return std::unique_ptr<SharedReceiveQueue>(
      std::make_unique<ShmReceiveQueue>(*this, requests_max));
}

Result<std::unique_ptr<RegisteredBuffer>> ShmDevice::allocate_buffer(ProtectionDomain& domain,
                                                                     std::size_t size_bytes,
                                                                     BufferUse use) {
  std::unique_ptr<RegisteredBuffer> buffer =
      SMC_TRY(ShmBuffer::create(static_cast<ShmDomain&>(domain), size_bytes, use));
  return buffer;
}

Result<std::unique_ptr<QueuePair>> ShmDevice::create_queue_pair(const QueuePairOptions& options) {
  SMC_ASSERT(options.domain != nullptr && options.receive_queue != nullptr);
  if (options.send_requests == 0 || options.send_requests > kSendRequestsMax)
    return Error{Errc::kExhausted, "send requests"};
  if (options.port.value == 0 || options.port.value > ports().size())
    return Error{Errc::kNotFound, "port"};
  const PacketSeq psn((random_ + kPsnStride * ++queue_pairs_made_) & kPsnMask);
  auto queue_pair = std::make_unique<ShmQueuePair>(*this, options, psn);
  SMC_TRY(add(*queue_pair));
  return std::unique_ptr<QueuePair>(std::move(queue_pair));
}

std::unique_ptr<PageReturn> ShmDevice::return_pages(std::span<std::byte> view) {
  if (!capabilities().returns_pages) return nullptr;
  return page_returns_.add(view);
}

void ShmDevice::set_port_state(PortNumber port, PortState state) {
  if (!parts_.ports.set_state(port, state)) return;
  parts_.events.port_changed(port, state);
  if (state == PortState::kActive) return;
  parts_.queue_pairs.for_each([&](ShmQueuePair& queue_pair) {
    if (queue_pair.port() == port && queue_pair.state() == ShmQueuePair::State::kReady)
      queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

Result<void> ShmDevice::add(ShmQueuePair& queue_pair) {
  queue_pair.set_number(SMC_TRY(parts_.queue_pairs.add(queue_pair)));
  return {};
}

void ShmDevice::remove(ShmQueuePair& queue_pair) {
  messages_.forget(queue_pair);
  parts_.events.forget(queue_pair.number());
  parts_.queue_pairs.remove(queue_pair.number());
}

void ShmDevice::queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests) {
  parts_.resume(queue_pair);
  if (has_requests) messages_.flush_later(queue_pair);
  if (report) parts_.events.queue_pair_fatal(queue_pair.number());
}

void ShmDevice::receive_queue_refilled(const ShmReceiveQueue& queue) {
  parts_.scheduler.resume(
      [&](const ShmQueuePair& stalled_on) { return &stalled_on.receive_queue() == &queue; });
}

Result<Channel*> ShmDevice::channel_to(PeerId peer) {
  control_.drain(peer);
  Channel* channel = parts_.channels.find_open(peer);
  if (channel == nullptr) {
    channel = SMC_TRY(parts_.channels.request(peer, std::chrono::steady_clock::now()));
    control_.take_arrivals();  // a connector may have it at once
    if (channel->awaits_memory()) parts_.timer.start();
  }
  return channel;
}

void ShmDevice::release(Channel& channel, QpNumber queue_pair) {
  SMC_ASSERT(channel.users() != 0);
  channel.remote().forget_views(queue_pair);
  channel.remove_user();
  if (channel.users() != 0) return;
  // A channel without an answer stays, and the next queue pair that needs one waits for the same
  // answer. A second request would give the peer a channel that nobody uses.
  channel.set_abandoned(channel.awaits_memory());
  parts_.channels.note_unused(channel);
}

void ShmDevice::discard_buffer(Mapping memory, const BufferId& buffer) {
  discards_.add(std::move(memory), buffer);
  parts_.timer.start();
}

void ShmDevice::free_discarded() {
  if (!discards_.any()) return;
  for (const BufferId& buffer : discards_.take_done(std::chrono::steady_clock::now()))
    parts_.channels.connector().free_buffer(buffer);
}

void ShmDevice::announce(Channel& channel, const ControlMessage& announcement) {
  // Without the memory the peer could not map the buffer. So the key stays unknown to it, and it
  // refuses the RMB.
  if (!parts_.channels.connector().grant(announcement.buffer, channel.peer())) return;
  parts_.send(channel, announcement);
  parts_.timer.start();  // for grants that are lost
}

bool ShmDevice::pending() const noexcept {
  return messages_.pending() || !parts_.events.empty() ||
         parts_.channels.connector().has_events() || parts_.scheduler.has_work();
}

bool ShmDevice::arm() {
  ring_doorbells();
  return !pending() && parts_.scheduler.fall_asleep(parts_.channels.connector().backlog());
}

void ShmDevice::ring_doorbells() {
  std::vector<Channel*> slow;
  parts_.scheduler.check_bells([&](Channel& channel) {
    channel.flush_control();
    if (channel.state() == Channel::State::kClosing) parts_.scheduler.activate(channel);
    const Duration spent = channel.ring_if_due();
    if (spent != Duration::zero() &&
        !parts_.channels.note_ring(channel, spent, std::chrono::steady_clock::now()))
      slow.push_back(&channel);
    return channel.control_flushed();
  });
  for (Channel* channel : slow)
    parts_.kill(*channel, Error{Errc::kExhausted, "a bell that takes too long to ring"});
  free_discarded();
  parts_.channels.connector().flush();
}

void ShmDevice::handle_readable(int fd) {
  if (fd == parts_.timer.descriptor()) return handle_timer();
  Connector& connector = parts_.channels.connector();
  if (connector.owns(fd)) {
    connector.handle_readable(fd);
    return control_.take_arrivals();
  }
  // Nothing if it was closed since the descriptor was seen to be readable.
  if (Channel* const channel = parts_.channels.find(fd)) control_.handle_bell(*channel);
}

void ShmDevice::handle_timer() {
  if (!parts_.timer.take_expiry()) return;
  free_discarded();
  const bool discarding = discards_.any();
  if (!control_.check_waits(std::chrono::steady_clock::now()) && !discarding) parts_.timer.stop();
}

}  // namespace fairlead::rdma::shm
