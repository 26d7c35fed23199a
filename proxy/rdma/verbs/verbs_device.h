// An RNIC through libibverbs: reliable connected queue pairs over RoCE or InfiniBand, without
// rdma_cm. Passes the same conformance suite as the shared-memory device.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "rdma/device.h"
#include "rdma/verbs/gid_select.h"
#include "rdma/verbs/memlock.h"
#include "rdma/verbs/path_options.h"

struct ibv_context;
struct ibv_async_event;

namespace fairlead::rdma::verbs {

inline constexpr std::uint32_t kSendRequestsMax = 1024;      // per queue pair
inline constexpr std::uint32_t kReceiveRequestsMax = 32768;  // per receive queue

struct VerbsOptions {
  std::string name;                   // of the device: "mlx5_0"
  MemlockAccount* memlock = nullptr;  // of the process; outlives the device
  PathOptions path{};
  GidPolicy gids{};
  std::vector<Gid> named{};  // addresses of the node, as it told us
  // Of InfiniBand ports, without the bit of membership; nothing: the first of a port.
  std::optional<std::uint16_t> partition_key{};
  // False: as on a device without them, each queue pair has its own receive queue.
  bool shared_receive_queues = true;
};

// Names of the node's devices, sorted. The kernel shows them to every container, also to one that
// has no device node of them. Costs a readdir(3).
std::vector<std::string> device_names();
// Whether the container has the device node of the device of that name. Reads sysfs.
bool has_device_node(const std::string& name);
// Whether the container has a device node of any RDMA device. Costs a readdir(3).
bool has_any_device_node();
// Differs between a device and a later one of the same name; 0 where there is none. A stat(2).
std::uint64_t device_identity(const std::string& name);

class VerbsDevice final : public Device {
 public:
  // Errors: kNotFound without a device of that name, kPermission when its node may not be opened or
  // is not there, kUnsupported when it can never carry SMC-R (device_judgement.h), those of
  // libibverbs.
  static Result<std::unique_ptr<VerbsDevice>> open(const VerbsOptions& options);
  ~VerbsDevice() override;

  // The port's GID table as last read, without entries that may not be used.
  std::span<const GidEntry> gids(PortNumber port) const;
  // Why the port's own GID is that.
  GidSource gid_source(PortNumber port) const;
  // The kernel has taken the device away; nothing works any more.
  bool gone() const { return gone_; }

  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const Port> ports() const override { return ports_; }
  Result<std::unique_ptr<ProtectionDomain>> create_protection_domain() override;
  Result<std::unique_ptr<SharedReceiveQueue>> create_shared_receive_queue(
      ProtectionDomain& domain, std::uint32_t requests_max) override;
  Result<std::unique_ptr<RegisteredBuffer>> allocate_buffer(ProtectionDomain& domain,
                                                            std::size_t size_bytes,
                                                            BufferUse use) override;
  // `buffer` is one of a VerbsDevice of this process.
  Result<std::unique_ptr<RegisteredBuffer>> share_buffer(ProtectionDomain& domain,
                                                         const RegisteredBuffer& buffer,
                                                         BufferUse use) override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  std::size_t registrable_bytes() const override { return memlock_.left_for_data_bytes(); }
  std::size_t poll(std::span<Completion> completions) override;
  std::optional<AsyncEvent> poll_async_event() override;
  bool pending() const noexcept override;
  bool arm() override;
  // Nothing to do: the device rings for as long as nobody has looked.
  void disarm() override {}
  // Nothing to do: post() rings.
  void ring_doorbells() override {}
  Result<void> set_watcher(FdWatcher* watcher) override;
  void handle_readable(int fd) override;

 private:
  struct Parts;  // what is made of libibverbs' types

  VerbsDevice(std::string name, MemlockAccount& memlock, std::unique_ptr<Parts> parts);
  Result<void> set_up(const VerbsOptions& options);
  Result<void> read_ports();
  bool take_event();
  void take(const ibv_async_event& event);
  void take_port_event(AsyncEvent::Kind kind, PortNumber number);
  void lose_device();

  std::string name_;
  MemlockAccount& memlock_;
  Capabilities capabilities_;
  std::unique_ptr<Parts> parts_;
  std::vector<Port> ports_;
  // Of one event of the device: at most one a queue pair, and one of the port.
  std::deque<AsyncEvent> events_;
  FdWatcher* watcher_ = nullptr;
  bool events_waiting_ = false;
  bool gone_ = false;
};

}  // namespace fairlead::rdma::verbs
