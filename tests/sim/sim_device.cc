#include "sim/sim_device.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/assert.h"
#include "sim/sim_queue_pair.h"

namespace fairlead::sim {
namespace {

constexpr std::uint32_t kNumberMask = 0xffffff;
constexpr std::uint64_t kAddressGap = 0x10000;  // between two buffers, so that overruns hit nothing

constexpr std::uint16_t kNoVlan = 0xfffe;  // in an EUI-64

Gid gid_of(std::uint32_t device, unsigned port, std::optional<std::uint16_t> roce_v1_vlan) {
  Gid gid;
  if (roce_v1_vlan) {
    const std::uint16_t middle = *roce_v1_vlan == 0 ? kNoVlan : *roce_v1_vlan;
    gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2};
    gid.bytes[11] = static_cast<std::uint8_t>(middle >> 8);
    gid.bytes[12] = static_cast<std::uint8_t>(middle);
  } else {
    gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10};
  }
  gid.bytes[13] = static_cast<std::uint8_t>(device >> 8);
  gid.bytes[14] = static_cast<std::uint8_t>(device);
  gid.bytes[15] = static_cast<std::uint8_t>(port);
  return gid;
}

}  // namespace

SimDomain::SimDomain(SimDevice& device, std::uint64_t id) : device_(device), id_(id) {
  ++device_.fabric().counts_.domains;
}

SimDomain::~SimDomain() {
  const Fabric::Access access(device_.fabric());
  --device_.fabric().counts_.domains;
}

SimBuffer::SimBuffer(SimDevice& device, std::shared_ptr<Memory> memory)
    : device_(device), memory_(std::move(memory)) {
  ++device_.fabric().counts_.buffers;
}

SimBuffer::~SimBuffer() {
  const Fabric::Access access(device_.fabric());
  memory_->granted = false;
  device_.unregister(memory_->rkey);
  --device_.fabric().counts_.buffers;
}

SimDevice::SimDevice(Fabric& fabric, const SimDeviceOptions& options)
    : fabric_(fabric),
      options_(options),
      capabilities_{.remote_memory_addressable = options.addressable,
                    .returns_pages = options.addressable,
                    .own_kind_only = options.own_kind_only,
                    .shared_receive_queues = options.shared_receive_queues,
                    .receive_queue_crosses_domains =
                        options.receive_queue_crosses_domains && options.shared_receive_queues,
                    .send_requests_max = kSimSendRequestsMax,
                    .receive_requests_max = kSimReceiveRequestsMax,
                    .registered_bytes_max = options.lock_limit_bytes} {
  const Fabric::Access access(fabric_);
  for (unsigned i = 1; i <= options.ports; ++i) {
    rdma::Port port;
    port.number = PortNumber(static_cast<std::uint8_t>(i));
    port.state = rdma::PortState::kActive;
    port.gid = gid_of(options.number, i, options.roce_v1_vlan);
    port.mac.bytes = {2,
                      0,
                      0,
                      static_cast<std::uint8_t>(options.number >> 8),
                      static_cast<std::uint8_t>(options.number),
                      static_cast<std::uint8_t>(i)};
    port.mtu = Mtu::k4096;
    ports_.push_back(port);
    const bool added = fabric_.devices_.emplace(port.gid, this).second;
    SMC_ASSERT(added, options.number);
  }
  next_key_ = options.number << 16;
  ++fabric_.counts_.devices;
}

SimDevice::~SimDevice() {
  const Fabric::Access access(fabric_);
  SMC_ASSERT(queue_pairs_.empty() && registered_.empty(), queue_pairs_.size(), registered_.size());
  for (const rdma::Port& port : ports_) fabric_.devices_.erase(port.gid);
  --fabric_.counts_.devices;
}

Result<std::unique_ptr<rdma::ProtectionDomain>> SimDevice::create_protection_domain() {
  const Fabric::Access access(fabric_);
  return std::unique_ptr<rdma::ProtectionDomain>(
      std::make_unique<SimDomain>(*this, fabric_.next_id_++));
}

Result<std::unique_ptr<rdma::SharedReceiveQueue>> SimDevice::create_shared_receive_queue(
    rdma::ProtectionDomain& domain, std::uint32_t requests_max) {
  const Fabric::Access access(fabric_);
  if (requests_max == 0 || requests_max > kSimReceiveRequestsMax)
    return Error{Errc::kExhausted, "receive requests"};
  return std::unique_ptr<rdma::SharedReceiveQueue>(std::make_unique<SimReceiveQueue>(
      *this, static_cast<SimDomain&>(domain), requests_max, capabilities_.shared_receive_queues));
}

Result<std::unique_ptr<rdma::RegisteredBuffer>> SimDevice::allocate_buffer(
    rdma::ProtectionDomain& domain, std::size_t size_bytes, rdma::BufferUse use) {
  const Fabric::Access access(fabric_);
  if (fabric_.pace_.chance(faults.refuse_memory_per_mille))
    return Error{Errc::kExhausted, "memory"};
  if (size_bytes > registrable_bytes()) return Error{Errc::kExhausted, "locked memory"};
  auto memory = std::make_shared<Memory>(size_bytes);
  if (memory->bytes.empty()) return Error{Errc::kExhausted, "memory"};
  return register_memory(domain, std::move(memory), use);
}

Result<std::unique_ptr<rdma::RegisteredBuffer>> SimDevice::share_buffer(
    rdma::ProtectionDomain& domain, const rdma::RegisteredBuffer& buffer, rdma::BufferUse use) {
  const Fabric::Access access(fabric_);
  if (fabric_.pace_.chance(faults.refuse_memory_per_mille) ||
      buffer.bytes().size() > registrable_bytes())
    return Error{Errc::kExhausted, "locked memory"};
  return register_memory(
      domain, std::make_shared<Memory>(static_cast<const SimBuffer&>(buffer).memory()), use);
}

Result<std::unique_ptr<rdma::RegisteredBuffer>> SimDevice::register_memory(
    rdma::ProtectionDomain& domain, std::shared_ptr<Memory> memory, rdma::BufferUse use) {
  memory->peer_may_write = rdma::peer_may_write(use);
  memory->domain = static_cast<SimDomain&>(domain).id();
  memory->rkey = RemoteKey(next_key_++);
  memory->address = RemoteAddress(fabric_.next_address_);
  fabric_.next_address_ += memory->bytes.size() + kAddressGap;
  registered_.emplace(memory->rkey.value, memory);
  locked_bytes_ += memory->bytes.size();
  return std::unique_ptr<rdma::RegisteredBuffer>(
      std::make_unique<SimBuffer>(*this, std::move(memory)));
}

Result<std::unique_ptr<rdma::QueuePair>> SimDevice::create_queue_pair(
    const rdma::QueuePairOptions& options) {
  const Fabric::Access access(fabric_);
  SMC_ASSERT(options.domain != nullptr && options.receive_queue != nullptr);
  if (options.send_requests == 0 || options.send_requests > kSimSendRequestsMax ||
      fabric_.pace_.chance(faults.refuse_queue_pair_per_mille))
    return Error{Errc::kExhausted, "send requests"};
  if (options.port.value == 0 || options.port.value > ports_.size())
    return Error{Errc::kNotFound, "port"};
  const QpNumber number((options_.number << 12 | next_number_++) & kNumberMask);
  const bool at_home = static_cast<SimDomain&>(*options.domain).id() ==
                       static_cast<SimReceiveQueue&>(*options.receive_queue).domain();
  if (!at_home && !capabilities_.receive_queue_crosses_domains)
    return Error{Errc::kUnsupported, "receive queue of another protection domain"};
  if (!static_cast<SimReceiveQueue&>(*options.receive_queue).take())
    return Error{Errc::kWrongState, "receive queue of another queue pair"};
  auto queue_pair =
      std::make_unique<SimQueuePair>(*this, options, number, PacketSeq(number.value ^ 0x5a5a));
  const bool added = queue_pairs_.emplace(number.value, queue_pair.get()).second;
  SMC_ASSERT(added, number.value);
  return std::unique_ptr<rdma::QueuePair>(std::move(queue_pair));
}

std::size_t SimDevice::poll(std::span<rdma::Completion> completions) {
  const Fabric::Access access(fabric_);
  std::size_t count = 0;
  while (count < completions.size() && !finished_.empty()) {
    const Finished finished = finished_.front();
    finished_.pop_front();
    if (SimQueuePair* queue_pair = find(finished.completion.queue_pair)) {
      const bool sent = finished.completion.kind == rdma::Completion::Kind::kSend;
      if (sent) queue_pair->completion_polled(finished.sequence);
      if (EventFile* events = fabric_.events)
        sent ? events->done(queue_pair->id(), finished.completion) : events->take(queue_pair->id());
    }
    completions[count++] = finished.completion;
  }
  return count;
}

std::optional<rdma::AsyncEvent> SimDevice::poll_async_event() {
  const Fabric::Access access(fabric_);
  if (events_.empty()) return std::nullopt;
  const rdma::AsyncEvent event = events_.front();
  events_.pop_front();
  if (event.kind == rdma::AsyncEvent::Kind::kQueuePairFatal && fabric_.events != nullptr)
    if (const SimQueuePair* queue_pair = find(event.queue_pair))
      fabric_.events->fault(queue_pair->id());
  return event;
}

bool SimDevice::pending() const noexcept {
  const std::lock_guard lock(fabric_.mutex_);
  return !finished_.empty() || !events_.empty();
}

bool SimDevice::arm() {
  const Fabric::Access access(fabric_);
  if (!finished_.empty() || !events_.empty()) return false;
  armed_ = true;
  return true;
}

void SimDevice::disarm() {
  const Fabric::Access access(fabric_);
  armed_ = false;
}

void SimDevice::ring_doorbells() {
  const Fabric::Access access(fabric_);
  for (const auto& [number, queue_pair] : queue_pairs_) {
    queue_pair->ring();
    fabric_.start(*queue_pair);
  }
}

Result<void> SimDevice::set_watcher(rdma::FdWatcher* watcher) {
  const Fabric::Access access(fabric_);
  if (!doorbell_) doorbell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (watcher_ != nullptr) watcher_->unwatch(doorbell_.get());
  watcher_ = watcher;
  if (watcher_ == nullptr) return {};
  return watcher_->watch_readable(doorbell_.get(), rdma::FdWatcher::Trigger::kEdge);
}

void SimDevice::handle_readable(int) {}

void SimDevice::wake() {
  if (!armed_) return;
  armed_ = false;
  if (on_wake) on_wake();
  if (watcher_ != nullptr) (void)::eventfd_write(doorbell_.get(), 1);
}

void SimDevice::complete(const rdma::Completion& completion, std::uint64_t sequence) {
  finished_.push_back({completion, sequence});
  wake();
}

void SimDevice::raise(const rdma::AsyncEvent& event) {
  events_.push_back(event);
  wake();
}

SimQueuePair* SimDevice::find(QpNumber number) const {
  const auto found = queue_pairs_.find(number.value);
  return found == queue_pairs_.end() ? nullptr : found->second;
}

// What it has received is still reported, so that the receive requests are not lost.
void SimDevice::forget(const SimQueuePair& queue_pair) {
  queue_pairs_.erase(queue_pair.number().value);
  std::erase_if(finished_, [&](const Finished& finished) {
    return finished.completion.kind == rdma::Completion::Kind::kSend &&
           finished.completion.queue_pair == queue_pair.number();
  });
}

std::size_t SimDevice::registrable_bytes() const {
  return options_.lock_limit_bytes == 0 ? rdma::Device::registrable_bytes()
                                        : options_.lock_limit_bytes - locked_bytes_;
}

void SimDevice::unregister(RemoteKey rkey) {
  const auto found = registered_.find(rkey.value);
  locked_bytes_ -= found->second->bytes.size();
  registered_.erase(found);
}

bool SimDevice::can_map(RemoteKey rkey) const {
  return options_.unmappable_one_in == 0 || rkey.value % options_.unmappable_one_in != 0;
}

std::shared_ptr<Memory> SimDevice::registered(RemoteKey rkey) const {
  const auto found = registered_.find(rkey.value);
  return found == registered_.end() ? nullptr : found->second;
}

void SimDevice::set_port_state(PortNumber number, rdma::PortState state) {
  const Fabric::Access access(fabric_);
  rdma::Port& port = ports_[number.value - 1U];
  if (port.state == state) return;
  port.state = state;
  const bool down = state == rdma::PortState::kDown;
  raise({.kind = down ? rdma::AsyncEvent::Kind::kPortDown : rdma::AsyncEvent::Kind::kPortUp,
         .port = number});
  // If it is not announced, senders notice it if the port stays down long enough.
  if (!down || !fabric_.pace_.announced()) return;
  for (const auto& [ignored, queue_pair] : queue_pairs_)
    if (queue_pair->port() == number && queue_pair->state() == SimQueuePair::State::kReady)
      queue_pair->break_down(rdma::CompletionStatus::kFlushed, true);
}

void SimDevice::fail_queue_pair(QpNumber number) {
  const Fabric::Access access(fabric_);
  if (SimQueuePair* queue_pair = find(number))
    queue_pair->break_down(rdma::CompletionStatus::kRetryExceeded, true);
}

std::vector<QpNumber> SimDevice::connected_queue_pairs() const {
  std::vector<QpNumber> numbers;
  for (const auto& [number, queue_pair] : queue_pairs_)
    if (queue_pair->state() == SimQueuePair::State::kReady) numbers.push_back(QpNumber(number));
  return numbers;
}

namespace {

// The memory changes at two times, so that bytes written between them are lost.
struct Returning {
  enum class State : std::uint8_t { kWaiting, kRunning, kSettled };
  std::shared_ptr<Memory> memory;
  std::span<std::byte> view;
  State state = State::kWaiting;
  void lose_bytes() const { std::fill(view.begin(), view.end(), std::byte{0xA5}); }
};

class SimPageReturn final : public rdma::PageReturn {
 public:
  SimPageReturn(std::recursive_mutex& mutex, std::shared_ptr<Returning> what)
      : mutex_(mutex), what_(std::move(what)) {}
  ~SimPageReturn() override { (void)settle(); }
  SimPageReturn(const SimPageReturn&) = delete;
  SimPageReturn& operator=(const SimPageReturn&) = delete;
  State settle() noexcept override {
    const std::lock_guard lock(mutex_);
    switch (what_->state) {
      case Returning::State::kWaiting:
        what_->state = Returning::State::kSettled;
        return State::kKept;
      case Returning::State::kRunning:
        return State::kReturning;
      case Returning::State::kSettled:
        break;
    }
    return State::kReturned;
  }

 private:
  std::recursive_mutex& mutex_;
  std::shared_ptr<Returning> what_;
};

}  // namespace

std::unique_ptr<rdma::PageReturn> SimDevice::return_pages(std::span<std::byte> view) {
  Fabric& fabric = fabric_;
  const Fabric::Access access(fabric);
  std::shared_ptr<Memory> memory;
  for (const auto& [number, queue_pair] : queue_pairs_)
    if (!view.empty() && memory == nullptr) memory = queue_pair->memory_of(view);
  if (memory == nullptr) return nullptr;
  auto what = std::make_shared<Returning>(Returning{std::move(memory), view});
  fabric.pace_.soon([&fabric, what] {
    if (what->state != Returning::State::kWaiting) return;
    what->state = Returning::State::kRunning;
    ++fabric.pages_returned_;
    what->lose_bytes();
    auto end = [what] {
      what->lose_bytes();
      what->state = Returning::State::kSettled;
    };
    // A peer may make it long.
    if (fabric.pace_.chance(500))
      fabric.pace_.after_retries(std::move(end));
    else
      fabric.pace_.soon(std::move(end));
  });
  return std::make_unique<SimPageReturn>(fabric.mutex_, std::move(what));
}

}  // namespace fairlead::sim
