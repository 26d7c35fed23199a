// rdma::Device on a simulated fabric. Addressable or not, with any number of ports. Tests can make
// it refuse memory, queue pairs or connections, and lose ports and queue pairs.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/linux/handle.h"
#include "sim/fabric.h"

namespace fairlead::sim {

class SimDomain final : public rdma::ProtectionDomain {
 public:
  SimDomain(SimDevice& device, std::uint64_t id);
  ~SimDomain() override;
  std::uint64_t id() const { return id_; }

 private:
  SimDevice& device_;
  std::uint64_t id_;
};

class SimBuffer final : public rdma::RegisteredBuffer {
 public:
  SimBuffer(SimDevice& device, std::shared_ptr<Memory> memory);
  ~SimBuffer() override;
  std::span<std::byte> bytes() const override { return memory_->bytes; }
  LocalKey lkey() const override { return LocalKey(memory_->rkey.value); }
  RemoteKey rkey() const override { return memory_->rkey; }
  RemoteAddress address() const override { return memory_->address; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  SimDevice& device_;
  std::shared_ptr<Memory> memory_;
};

struct SimDeviceOptions {
  std::string name = "sim0";
  std::uint32_t number = 1;  // unique on the fabric; makes the GIDs
  // The GIDs are link-local ones of RoCEv1, of an interface with this VLAN id; 0: without one.
  std::optional<std::uint16_t> roce_v1_vlan;
  unsigned ports = 1;
  bool addressable = true;
  bool receive_queue_crosses_domains = true;
  bool shared_receive_queues = true;
  bool own_kind_only = false;
  std::size_t lock_limit_bytes = 0;  // 0 for none
  // Of the peers' buffers, one in so many cannot be mapped for as long as it exists; 0 for none.
  unsigned unmappable_one_in = 0;
};

// Probabilities of refusals, in thousandths.
struct SimDeviceFaults {
  unsigned refuse_memory_per_mille = 0;
  unsigned refuse_queue_pair_per_mille = 0;
  unsigned refuse_connect_per_mille = 0;
  unsigned refuse_remote_per_mille = 0;
};

inline constexpr std::uint32_t kSimSendRequestsMax = 4096;
inline constexpr std::uint32_t kSimReceiveRequestsMax = 4096;

class SimDevice final : public rdma::Device {
 public:
  SimDevice(Fabric& fabric, const SimDeviceOptions& options);
  ~SimDevice() override;

  const std::string& name() const override { return options_.name; }
  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  std::span<const rdma::Port> ports() const override { return ports_; }
  Result<std::unique_ptr<rdma::ProtectionDomain>> create_protection_domain() override;
  Result<std::unique_ptr<rdma::SharedReceiveQueue>> create_shared_receive_queue(
      rdma::ProtectionDomain& domain, std::uint32_t requests_max) override;
  Result<std::unique_ptr<rdma::RegisteredBuffer>> allocate_buffer(rdma::ProtectionDomain& domain,
                                                                  std::size_t size_bytes,
                                                                  rdma::BufferUse use) override;
  Result<std::unique_ptr<rdma::RegisteredBuffer>> share_buffer(rdma::ProtectionDomain& domain,
                                                               const rdma::RegisteredBuffer& buffer,
                                                               rdma::BufferUse use) override;
  Result<std::unique_ptr<rdma::QueuePair>> create_queue_pair(
      const rdma::QueuePairOptions& options) override;
  std::unique_ptr<rdma::PageReturn> return_pages(std::span<std::byte> view) override;
  std::size_t registrable_bytes() const override;
  // Of all buffers that are registered.
  std::size_t locked_bytes() const { return locked_bytes_; }
  std::size_t poll(std::span<rdma::Completion> completions) override;
  std::optional<rdma::AsyncEvent> poll_async_event() override;
  bool pending() const noexcept override;
  bool arm() override;
  void disarm() override;
  void ring_doorbells() override;
  Result<void> set_watcher(rdma::FdWatcher* watcher) override;
  void handle_readable(int fd) override;

  // The world acts on the device.
  void set_port_state(PortNumber port, rdma::PortState state);
  void fail_queue_pair(QpNumber number);
  std::vector<QpNumber> connected_queue_pairs() const;
  SimDeviceFaults faults;
  // Called instead of writing to a descriptor, when armed.
  std::function<void()> on_wake;

  // For the objects created by this device.
  Fabric& fabric() const { return fabric_; }
  SimQueuePair* find(QpNumber number) const;
  void forget(const SimQueuePair& queue_pair);
  void complete(const rdma::Completion& completion, std::uint64_t sequence);
  void raise(const rdma::AsyncEvent& event);
  std::shared_ptr<Memory> registered(RemoteKey rkey) const;
  bool can_map(RemoteKey rkey) const;
  void unregister(RemoteKey rkey);

 private:
  struct Finished {
    rdma::Completion completion;
    std::uint64_t sequence = 0;
  };
  void wake();
  Result<std::unique_ptr<rdma::RegisteredBuffer>> register_memory(rdma::ProtectionDomain& domain,
                                                                  std::shared_ptr<Memory> memory,
                                                                  rdma::BufferUse use);

  Fabric& fabric_;
  SimDeviceOptions options_;
  rdma::Capabilities capabilities_;
  std::vector<rdma::Port> ports_;
  std::unordered_map<std::uint32_t, std::shared_ptr<Memory>> registered_;
  std::map<std::uint32_t, SimQueuePair*> queue_pairs_;
  std::deque<Finished> finished_;
  std::deque<rdma::AsyncEvent> events_;
  std::size_t locked_bytes_ = 0;
  std::uint32_t next_number_ = 1;
  std::uint32_t next_key_ = 1;
  bool armed_ = false;
  rdma::FdWatcher* watcher_ = nullptr;
  FileDescriptor doorbell_;
};

}  // namespace fairlead::sim
