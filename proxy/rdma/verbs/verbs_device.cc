#include "rdma/verbs/verbs_device.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/linux/files.h"
#include "rdma/verbs/device_judgement.h"
#include "rdma/verbs/verbs_buffer.h"
#include "rdma/verbs/verbs_completions.h"
#include "rdma/verbs/verbs_ports.h"
#include "rdma/verbs/verbs_probe.h"
#include "rdma/verbs/verbs_queue_pair.h"
#include "rdma/verbs/verbs_receive_queue.h"
#include "rdma/verbs/verbs_status.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr const char* kDevicesFolder = "/sys/class/infiniband";
constexpr const char* kVerbsFolder = "/sys/class/infiniband_verbs";
constexpr const char* kNodesFolder = "/dev/infiniband";

std::vector<std::string> entries_of(const char* path) {
  std::vector<std::string> names;
  const Handle<DIR, ::closedir> folder(::opendir(path));
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

Result<ContextHandle> open_context(const std::string& name) {
  int count = 0;
  const DeviceListHandle list(ibv_get_device_list(&count));
  for (int i = 0; list != nullptr && i < count; ++i) {
    ibv_device* device = list.get()[i];
    if (name != ibv_get_device_name(device)) continue;
    errno = 0;
    ContextHandle context(ibv_open_device(device));
    if (context != nullptr) return context;
    Error error = system_error("ibv_open_device", errno);
    // The library forgets why the device's node did not open.
    const std::string node = std::string(kNodesFolder) + "/" + device->dev_name;
    if (::access(node.c_str(), R_OK | W_OK) != 0) error = system_error("the device's node", errno);
    // The device exists, but a container sees no node of it: nobody granted it.
    if (error.code == Errc::kNotFound) error.code = Errc::kPermission;
    return error;
  }
  // The library leaves out devices without a device node.
  if (device_identity(name) != 0)
    return Error{Errc::kPermission, "the device's node, which this container does not have"};
  return Error{Errc::kNotFound, "RDMA device of that name"};
}

}  // namespace

struct VerbsDevice::Parts {
  ContextHandle context;
  ibv_device_attr limits{};
  std::vector<VerbsPort> ports;
  std::unique_ptr<CompletionQueue> completions;
};

std::vector<std::string> device_names() {
  std::vector<std::string> names = entries_of(kDevicesFolder);
  std::sort(names.begin(), names.end());
  return names;
}

bool has_device_node(const std::string& name) {
  const std::vector<std::string> nodes = entries_of(kVerbsFolder);
  return std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
    return first_line(std::string(kVerbsFolder) + "/" + node + "/ibdev") == name &&
           ::access((std::string(kNodesFolder) + "/" + node).c_str(), F_OK) == 0;
  });
}

bool has_any_device_node() {
  const std::vector<std::string> nodes = entries_of(kNodesFolder);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const std::string& node) { return node.starts_with("uverbs"); });
}

std::uint64_t device_identity(const std::string& name) {
  struct stat status {};
  const std::string folder = std::string(kDevicesFolder) + "/" + name + "/ports";
  return ::stat(folder.c_str(), &status) == 0 ? status.st_ino : 0;
}

VerbsDevice::VerbsDevice(std::string name, MemlockAccount& memlock, std::unique_ptr<Parts> parts)
    : name_(std::move(name)), memlock_(memlock), parts_(std::move(parts)) {}

VerbsDevice::~VerbsDevice() { (void)set_watcher(nullptr); }

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsOptions& options) {
  SMC_ASSERT(options.memlock != nullptr);
  auto parts = std::make_unique<Parts>();
  parts->context = SMC_TRY(open_context(options.name));
  std::unique_ptr<VerbsDevice> device(
      new VerbsDevice(options.name, *options.memlock, std::move(parts)));
  SMC_TRY(device->set_up(options));
  return device;
}

Result<void> VerbsDevice::set_up(const VerbsOptions& options) {
  ibv_context& context = *parts_->context;
  SMC_TRY(judge_transport(context.device->transport_type));
  ibv_device_attr& limits = parts_->limits;
  if (const int error = ibv_query_device(&context, &limits); error != 0)
    return system_error("ibv_query_device", error);
  SMC_TRY(judge_limits(limits));
  SMC_TRY(try_reliable_connection(context));
  const int flags = ::fcntl(context.async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(context.async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("fcntl of the event channel", errno);
  capabilities_.send_requests_max =
      std::min(kSendRequestsMax, static_cast<std::uint32_t>(limits.max_qp_wr));
  const bool shared = options.shared_receive_queues && has_shared_receive_queues(limits);
  capabilities_.shared_receive_queues = shared;
  capabilities_.receive_requests_max =
      std::min(kReceiveRequestsMax,
               static_cast<std::uint32_t>(shared ? limits.max_srq_wr : limits.max_qp_wr));
  capabilities_.registered_bytes_max = memlock_.limit_bytes();
  parts_->completions = SMC_TRY(
      CompletionQueue::create(context, static_cast<std::uint32_t>(std::max(limits.max_cqe, 1))));
  parts_->ports.resize(limits.phys_port_cnt, VerbsPort{.path = options.path,
                                                       .policy = options.gids,
                                                       .named = options.named,
                                                       .partition_key = options.partition_key});
  SMC_TRY(read_ports());
  if (std::all_of(ports_.begin(), ports_.end(),
                  [](const Port& port) { return port.fault == PortFault::kLinkLayer; }))
    return Error{Errc::kUnsupported, "no port of the device is Ethernet or InfiniBand"};
  for (const Port& port : ports_) {
    if (!shared || port.state != PortState::kActive || port.gid.is_zero()) continue;
    capabilities_.receive_queue_crosses_domains = receive_queue_crosses_domains(*this, port);
    break;
  }
  return {};
}

Result<void> VerbsDevice::read_ports() {
  ports_.clear();
  for (std::size_t i = 0; i < parts_->ports.size(); ++i) {
    VerbsPort& port = parts_->ports[i];
    SMC_TRY(read_port(*parts_->context, static_cast<std::uint8_t>(i + 1), port));
    ports_.push_back(port.port);
  }
  return {};
}

std::span<const GidEntry> VerbsDevice::gids(PortNumber port) const {
  if (port.value == 0 || port.value > parts_->ports.size()) return {};
  return parts_->ports[port.value - 1U].gids;
}

GidSource VerbsDevice::gid_source(PortNumber port) const {
  if (port.value == 0 || port.value > parts_->ports.size()) return GidSource::kTable;
  return parts_->ports[port.value - 1U].source;
}

Result<std::unique_ptr<ProtectionDomain>> VerbsDevice::create_protection_domain() {
  DomainHandle domain(ibv_alloc_pd(parts_->context.get()));
  if (domain == nullptr) return system_error("ibv_alloc_pd", errno);
  return std::unique_ptr<ProtectionDomain>(std::make_unique<VerbsDomain>(std::move(domain)));
}

Result<std::unique_ptr<SharedReceiveQueue>> VerbsDevice::create_shared_receive_queue(
    ProtectionDomain& domain, std::uint32_t requests_max) {
  if (requests_max == 0 || requests_max > capabilities_.receive_requests_max)
    return Error{Errc::kExhausted, "receive requests"};
  using Kind = VerbsReceiveQueue::Kind;
  const Kind kind = capabilities_.shared_receive_queues ? Kind::kShared : Kind::kOfQueuePair;
  std::unique_ptr<SharedReceiveQueue> queue = SMC_TRY(VerbsReceiveQueue::create(
      static_cast<VerbsDomain&>(domain), *parts_->completions, requests_max, kind));
  return queue;
}

Result<std::unique_ptr<RegisteredBuffer>> VerbsDevice::allocate_buffer(ProtectionDomain& domain,
                                                                       std::size_t size_bytes,
                                                                       BufferUse use) {
  std::unique_ptr<RegisteredBuffer> buffer =
      SMC_TRY(VerbsBuffer::create(static_cast<VerbsDomain&>(domain), memlock_, size_bytes, use));
  return buffer;
}

Result<std::unique_ptr<RegisteredBuffer>> VerbsDevice::share_buffer(ProtectionDomain& domain,
                                                                    const RegisteredBuffer& buffer,
                                                                    BufferUse use) {
  std::unique_ptr<RegisteredBuffer> shared = SMC_TRY(
      VerbsBuffer::create(static_cast<VerbsDomain&>(domain), memlock_, buffer.bytes(), use));
  return shared;
}

Result<std::unique_ptr<QueuePair>> VerbsDevice::create_queue_pair(const QueuePairOptions& options) {
  SMC_ASSERT(options.domain != nullptr && options.receive_queue != nullptr);
  if (options.send_requests == 0 || options.send_requests > capabilities_.send_requests_max)
    return Error{Errc::kExhausted, "send requests"};
  if (options.port.value == 0 || options.port.value > ports_.size())
    return Error{Errc::kNotFound, "port"};
  const auto& receives = static_cast<VerbsReceiveQueue&>(*options.receive_queue);
  if (!receives.shared() && !receives.unattached())
    return Error{Errc::kWrongState, "the receive queue of another queue pair"};
  std::unique_ptr<QueuePair> queue_pair = SMC_TRY(VerbsQueuePair::create(
      *parts_->completions, memlock_, parts_->ports[options.port.value - 1U], options));
  return queue_pair;
}

std::size_t VerbsDevice::poll(std::span<Completion> completions) {
  return parts_->completions->poll(completions);
}

bool VerbsDevice::pending() const noexcept {
  return events_waiting_ || !events_.empty() || parts_->completions->pending();
}

bool VerbsDevice::arm() {
  return !events_waiting_ && events_.empty() && parts_->completions->arm();
}

Result<void> VerbsDevice::set_watcher(FdWatcher* watcher) {
  Result<void> watched;
  for (const int fd : {parts_->completions->fd(), parts_->context->async_fd}) {
    if (gone_ && fd == parts_->context->async_fd) continue;
    if (watcher_ != nullptr) watcher_->unwatch(fd);
    if (watcher != nullptr && watched)
      watched = watcher->watch_readable(fd, FdWatcher::Trigger::kLevel);
  }
  watcher_ = watcher;
  return watched;
}

void VerbsDevice::handle_readable(int fd) {
  if (fd == parts_->completions->fd()) parts_->completions->take_notices();
  if (fd == parts_->context->async_fd) events_waiting_ = true;
}

std::optional<AsyncEvent> VerbsDevice::poll_async_event() {
  if (const std::optional<AsyncEvent> event = parts_->completions->take_event()) return event;
  while (events_.empty() && events_waiting_) events_waiting_ = take_event();
  if (events_.empty()) return std::nullopt;
  const AsyncEvent event = events_.front();
  events_.pop_front();
  return event;
}

// False when none is left.
bool VerbsDevice::take_event() {
  ibv_async_event event{};
  if (ibv_get_async_event(parts_->context.get(), &event) != 0) {
    if (errno != EAGAIN && errno != EINTR) lose_device();
    return errno == EINTR;
  }
  take(event);
  ibv_ack_async_event(&event);
  return !gone_;
}

void VerbsDevice::take(const ibv_async_event& event) {
  const std::optional<EventMeaning> meaning = meaning_of(event.event_type);
  if (!meaning) return;
  switch (meaning->subject) {
    case EventSubject::kPort:
      take_port_event(meaning->kind, PortNumber{static_cast<std::uint8_t>(event.element.port_num)});
      break;
    case EventSubject::kQueuePair: {
      auto& queue_pair = *static_cast<VerbsQueuePair*>(event.element.qp->qp_context);
      if (queue_pair.note_fatal())
        events_.push_back({meaning->kind, queue_pair.port(), queue_pair.number()});
      break;
    }
    case EventSubject::kReceiveQueue:
      events_.push_back({meaning->kind, {}, {}});
      break;
    case EventSubject::kDevice:
      lose_device();
      break;
  }
}

void VerbsDevice::take_port_event(AsyncEvent::Kind kind, PortNumber number) {
  if (number.value == 0 || number.value > ports_.size()) return;
  const PortState before = ports_[number.value - 1U].state;
  if (!read_ports()) return lose_device();
  const PortState now = ports_[number.value - 1U].state;
  // The state counts, not the event: a port may have come back before anybody looked.
  if (kind == AsyncEvent::Kind::kGidChange || now == before) {
    events_.push_back({AsyncEvent::Kind::kGidChange, number, {}});
    return;
  }
  events_.push_back(
      {now == PortState::kActive ? AsyncEvent::Kind::kPortUp : AsyncEvent::Kind::kPortDown,
       number,
       {}});
  if (now == PortState::kActive) return;
  // Retrying would take seconds to find out what is known already.
  parts_->completions->for_each([&](VerbsQueuePair& queue_pair) {
    if (queue_pair.port() != number || !queue_pair.connected()) return;
    queue_pair.fail();
    events_.push_back({AsyncEvent::Kind::kQueuePairFatal, number, queue_pair.number()});
  });
}

void VerbsDevice::lose_device() {
  if (gone_) return;
  if (watcher_ != nullptr) watcher_->unwatch(parts_->context->async_fd);
  gone_ = true;
  events_waiting_ = false;
  for (Port& port : ports_) port.state = PortState::kDown;
  for (VerbsPort& port : parts_->ports) port.port.state = PortState::kDown;
  events_.push_back({AsyncEvent::Kind::kDeviceFatal, {}, {}});
}

}  // namespace fairlead::rdma::verbs
