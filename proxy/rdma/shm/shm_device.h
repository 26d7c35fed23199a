// An RNIC made of memfds: queue pairs between processes of one host. Passes the same conformance
// suite as hardware. docs/shm.md tells how it works on the inside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "rdma/device.h"
#include "rdma/shm/channel/shm_events.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/connect/shm_fabric.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class ShmEngine;

struct ShmOptions {
  std::string directory;  // the fabric; made if missing
  PeerId peer_id;         // unique on the fabric, not zero
  unsigned ports = 1;     // 1 to kPortsMax
  // False: remote_memory() is not offered, so that peers are written to by work requests only.
  bool addressable = true;
  // How long control messages of a channel wait: for memory that was announced, and for a peer that
  // takes none.
  Duration grant_wait = kGrantWaitMax;
  Duration control_stall = kControlStallMax;
  std::string name = "shm0";
};

class ShmDevice final : public Device {
 public:
  // Errors: see Fabric::open(); kUnsupported for options out of range.
  static Result<std::unique_ptr<ShmDevice>> open(const ShmOptions& options);
  // On the fabric of that connector; options.directory is not looked at.
  static Result<std::unique_ptr<ShmDevice>> open(const ShmOptions& options,
                                                 std::unique_ptr<Connector> connector);
  ~ShmDevice() override;

  static Gid gid_of(FabricId fabric, PortNumber port, PeerId peer) {
    return shm::gid_of(fabric, port, peer);
  }

  FabricId fabric() const;
  const Connector& connector() const;
  // True when `gid` is of this fabric and its device seems to live. Costs at most a stat(2).
  bool reachable(const Gid& gid) const;
  // As if the cable was pulled or plugged in: connected queue pairs of the port break on both
  // sides.
  void set_port_state(PortNumber port, PortState state);
  std::optional<PeerFault> poll_fault() override;

  bool take_port(PortNumber port, PortState state) override;

  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const Port> ports() const override;
  Result<std::unique_ptr<ProtectionDomain>> create_protection_domain() override;
  Result<std::unique_ptr<SharedReceiveQueue>> create_shared_receive_queue(
      ProtectionDomain& domain, std::uint32_t requests_max) override;
  Result<std::unique_ptr<RegisteredBuffer>> allocate_buffer(ProtectionDomain& domain,
                                                            std::size_t size_bytes,
                                                            BufferUse use) override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  std::unique_ptr<PageReturn> return_pages(std::span<std::byte> view) override;
  std::size_t poll(std::span<Completion> completions) override;
  std::optional<AsyncEvent> poll_async_event() override;
  bool pending() const noexcept override;
  bool arm() override;
  void disarm() override;
  void ring_doorbells() override;
  Result<void> set_watcher(FdWatcher* watcher) override;
  void handle_readable(int fd) override;

 private:
  ShmDevice(std::string name, const Capabilities& capabilities, std::unique_ptr<ShmEngine> engine,
            std::uint32_t random);

  std::string name_;
  Capabilities capabilities_;
  std::unique_ptr<ShmEngine> engine_;
  std::uint32_t random_;  // where domain ids and packet sequence numbers begin
  std::uint32_t domains_made_ = 0;
  std::uint32_t queue_pairs_made_ = 0;
};

}  // namespace fairlead::rdma::shm
