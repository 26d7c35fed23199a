// An RNIC made of memfds: queue pairs between processes of one host. Passes the same conformance
// suite as hardware. docs/shm.md tells how it works on the inside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "rdma/device.h"
#include "rdma/shm/channel/shm_control_path.h"
#include "rdma/shm/channel/shm_message_path.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/memory/shm_buffer.h"
#include "rdma/shm/memory/shm_discards.h"
#include "rdma/shm/memory/shm_page_returns.h"
#include "rdma/shm/shm_device_parts.h"
#include "rdma/shm/shm_gid.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

struct ShmOptions {
  PeerId peer_id;      // unique on the fabric, not zero
  unsigned ports = 1;  // 1 to kPortsMax
  // False: remote_memory() is not offered, so that peers are written to by work requests only.
  bool addressable = true;
  WaitLimits wait_limits;
  std::string name = "shm0";
};

class ShmDevice final : public Device {
 public:
  // On the fabric of that connector. Errors: kUnsupported for options out of range, those of the
  // system.
  static Result<std::unique_ptr<ShmDevice>> open(const ShmOptions& options,
                                                 std::unique_ptr<Connector> connector);

  static Gid gid_of(FabricId fabric, PortNumber port, PeerId peer) {
    return shm::gid_of(fabric, port, peer);
  }

  FabricId fabric() const { return connector().id(); }
  const Connector& connector() const { return parts_.channels.connector(); }
  // True when `gid` is of this fabric and its device may be reached.
  bool reachable(const Gid& gid) const;
  // As if the cable was pulled or plugged in: connected queue pairs of the port break on both
  // sides.
  void set_port_state(PortNumber port, PortState state);
  std::optional<PeerFault> poll_fault() override { return parts_.faults.poll(); }
  bool take_port(PortNumber port, PortState state) override;

  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const Port> ports() const override { return parts_.ports.all(); }
  Result<std::unique_ptr<ProtectionDomain>> create_protection_domain() override;
  Result<std::unique_ptr<SharedReceiveQueue>> create_shared_receive_queue(
      ProtectionDomain& domain, std::uint32_t requests_max) override;
  Result<std::unique_ptr<RegisteredBuffer>> allocate_buffer(ProtectionDomain& domain,
                                                            std::size_t size_bytes,
                                                            BufferUse use) override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  std::unique_ptr<PageReturn> return_pages(std::span<std::byte> view) override;
  std::size_t poll(std::span<Completion> completions) override {
    return messages_.poll(completions);
  }
  std::optional<AsyncEvent> poll_async_event() override { return parts_.events.poll(); }
  bool pending() const noexcept override;
  bool arm() override;
  void disarm() override { parts_.scheduler.wake_up(); }
  void ring_doorbells() override;
  Result<void> set_watcher(FdWatcher* watcher) override {
    return parts_.channels.set_watcher(watcher);
  }
  void handle_readable(int fd) override;

  // For its queue pairs, receive queues, domains and buffers.
  DeviceParts& parts() { return parts_; }
  BufferTable& buffers() { return buffers_; }
  Result<void> add(ShmQueuePair& queue_pair);
  void remove(ShmQueuePair& queue_pair);
  void queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests);
  void receive_queue_refilled(const ShmReceiveQueue& queue);
  // The channel to post on for that device, dialled if there is none.
  Result<Channel*> channel_to(PeerId peer);
  // Reads all that the peer has told so far.
  void drain(PeerId peer) { control_.drain(peer); }
  // That queue pair, which is about to be destroyed, points to it no longer.
  void release(Channel& channel, QpNumber queue_pair);
  // The memory of a new buffer, and of one that is destroyed.
  Result<Blank> take_buffer() { return parts_.channels.connector().take_buffer(); }
  void discard_buffer(Mapping memory, const BufferId& buffer);
  // Tells the peer of the channel about a local buffer and gives it the memory.
  void announce(Channel& channel, const ControlMessage& announcement);

 private:
  ShmDevice(const ShmOptions& options, std::unique_ptr<Connector> connector, FileDescriptor timer,
            std::uint32_t random, std::vector<Port> own_ports);
  void handle_timer();
  void free_discarded();

  std::string name_;
  Capabilities capabilities_;
  std::uint32_t random_;  // where domain ids and packet sequence numbers begin
  std::uint32_t domains_made_ = 0;
  std::uint32_t queue_pairs_made_ = 0;
  BufferTable buffers_;
  Discards discards_;
  PageReturns page_returns_;
  DeviceParts parts_;
  ControlPath control_{parts_};
  MessagePath messages_{parts_, control_};
};

}  // namespace fairlead::rdma::shm
