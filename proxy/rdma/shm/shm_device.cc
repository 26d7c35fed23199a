#include "rdma/shm/shm_device.h"

#include <sys/random.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/connect/shm_directory_connector.h"
#include "rdma/shm/queue/shm_queue_pair.h"
#include "rdma/shm/queue/shm_receive_queue.h"
#include "rdma/shm/shm_engine.h"

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

Result<void> check(const ShmOptions& options) {
  if (options.ports >= 1 && options.ports <= kPortsMax && !options.peer_id.is_zero()) return {};
  return Error{Errc::kUnsupported, "ports or peer id of a shared-memory device"};
}

}  // namespace

Result<std::unique_ptr<ShmDevice>> ShmDevice::open(const ShmOptions& options) {
  SMC_TRY(check(options));
  return open(options, SMC_TRY(DirectoryConnector::open(options.directory, options.peer_id)));
}

Result<std::unique_ptr<ShmDevice>> ShmDevice::open(const ShmOptions& options,
                                                   std::unique_ptr<Connector> connector) {
  SMC_TRY(check(options));
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return system_error("getrandom", errno);
  FileDescriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return system_error("timerfd_create", errno);
  auto ports = make_ports(connector->id(), options);
  auto engine = std::make_unique<ShmEngine>(std::move(connector), std::move(timer), random,
                                            std::move(ports), options.addressable);
  engine->control().set_wait_limits(options.grant_wait, options.control_stall);
  const Capabilities capabilities{.remote_memory_addressable = options.addressable,
                                  .returns_pages = options.addressable && !strict_overcommit(),
                                  .own_kind_only = true,
                                  .receive_queue_crosses_domains = true,
                                  .send_requests_max = kSendRequestsMax,
                                  .receive_requests_max = kReceiveRequestsMax};
  return std::unique_ptr<ShmDevice>(
      new ShmDevice(options.name, capabilities, std::move(engine), random));
}

ShmDevice::ShmDevice(std::string name, const Capabilities& capabilities,
                     std::unique_ptr<ShmEngine> engine, std::uint32_t random)
    : name_(std::move(name)),
      capabilities_(capabilities),
      engine_(std::move(engine)),
      random_(random) {}

ShmDevice::~ShmDevice() = default;

FabricId ShmDevice::fabric() const { return engine_->parts().channels.connector().id(); }

const Connector& ShmDevice::connector() const { return engine_->parts().channels.connector(); }

bool ShmDevice::reachable(const Gid& gid) const {
  const auto parsed = shm::parse_gid(gid);
  if (!parsed || parsed->fabric != fabric()) return false;
  return engine_->parts().channels.find_open(parsed->peer) != nullptr ||
         engine_->parts().channels.connector().may_reach(parsed->peer);
}

void ShmDevice::set_port_state(PortNumber port, PortState state) {
  engine_->set_port_state(port, state);
}

bool ShmDevice::take_port(PortNumber port, PortState state) {
  if (port.value == 0 || port.value > ports().size()) return false;
  set_port_state(port, state);
  return true;
}

std::optional<PeerFault> ShmDevice::poll_fault() { return engine_->parts().faults.poll(); }

std::span<const Port> ShmDevice::ports() const { return engine_->parts().ports.all(); }

Result<std::unique_ptr<ProtectionDomain>> ShmDevice::create_protection_domain() {
  const DomainId id(random_ + domains_made_++);
  return std::unique_ptr<ProtectionDomain>(std::make_unique<ShmDomain>(*engine_, id));
}

Result<std::unique_ptr<SharedReceiveQueue>> ShmDevice::create_shared_receive_queue(
    ProtectionDomain&, std::uint32_t requests_max) {
  if (requests_max == 0 || requests_max > kReceiveRequestsMax)
    return Error{Errc::kExhausted, "receive requests"};
  return std::unique_ptr<SharedReceiveQueue>(
      std::make_unique<ShmReceiveQueue>(*engine_, requests_max));
}

Result<std::unique_ptr<RegisteredBuffer>> ShmDevice::allocate_buffer(ProtectionDomain& domain,
                                                                     std::size_t size_bytes,
                                                                     BufferUse use) {
  std::unique_ptr<RegisteredBuffer> buffer = SMC_TRY(
      ShmBuffer::create(static_cast<ShmDomain&>(domain), engine_->buffers, size_bytes, use));
  return buffer;
}

Result<std::unique_ptr<QueuePair>> ShmDevice::create_queue_pair(const QueuePairOptions& options) {
  SMC_ASSERT(options.domain != nullptr && options.receive_queue != nullptr);
  if (options.send_requests == 0 || options.send_requests > kSendRequestsMax)
    return Error{Errc::kExhausted, "send requests"};
  if (options.port.value == 0 || options.port.value > ports().size())
    return Error{Errc::kNotFound, "port"};
  const PacketSeq psn((random_ + kPsnStride * ++queue_pairs_made_) & kPsnMask);
  auto queue_pair = std::make_unique<ShmQueuePair>(*engine_, options, psn);
  SMC_TRY(engine_->add(*queue_pair));
  return std::unique_ptr<QueuePair>(std::move(queue_pair));
}

std::unique_ptr<PageReturn> ShmDevice::return_pages(std::span<std::byte> view) {
  if (!capabilities().returns_pages) return nullptr;
  return engine_->return_pages(view);
}

std::size_t ShmDevice::poll(std::span<Completion> completions) {
  return engine_->poll(completions);
}

std::optional<AsyncEvent> ShmDevice::poll_async_event() { return engine_->parts().events.poll(); }

bool ShmDevice::pending() const noexcept { return engine_->pending(); }

bool ShmDevice::arm() { return engine_->arm(); }

void ShmDevice::disarm() { engine_->disarm(); }

void ShmDevice::ring_doorbells() { engine_->ring_doorbells(); }

Result<void> ShmDevice::set_watcher(FdWatcher* watcher) { return engine_->set_watcher(watcher); }

void ShmDevice::handle_readable(int fd) { engine_->handle_readable(fd); }

}  // namespace fairlead::rdma::shm
