// Registered buffers and protection domains of the shared-memory device. A buffer is a memfd of its
// own, which the connector made; a domain knows which channels its buffers are announced on: those
// on which one of its queue pairs is connected, no others. Buffers that no peer may write are
// private memory and announced to nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/device.h"
#include "rdma/shm/channel/shm_control.h"
#include "rdma/shm/memory/shm_segment.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class ShmDevice;
class Channel;
class ShmBuffer;

// The keys of the buffers of one device.
class BufferTable {
 public:
  // A key that is random above its 12 bits of index, never 0. Errors: kExhausted at kBuffersMax.
  Result<RemoteKey> add();
  void remove(RemoteKey key);

 private:
  std::vector<RemoteKey> keys_;      // by index, also those that were removed
  std::vector<std::uint32_t> free_;  // indices below keys_.size()
};

class ShmDomain final : public ProtectionDomain {
 public:
  ShmDomain(ShmDevice& device, DomainId id) : device_(&device), id_(id) {}
  // REQUIRES: its buffers and queue pairs are gone.
  ~ShmDomain() override;

  DomainId id() const { return id_; }
  ShmDevice& device() const { return *device_; }
  // A local queue pair is connected over `channel`, or no longer is. The first one announces the
  // buffers.
  void join(Channel& channel);
  void leave(Channel& channel);
  void add(ShmBuffer& buffer);     // a peer may write it: announces it on all joined channels
  void remove(ShmBuffer& buffer);  // withdraws what was announced

 private:
  struct Audience {
    Channel* channel;
    std::uint32_t queue_pairs;
  };
  void announce(Channel& channel, const ShmBuffer& buffer);

  ShmDevice* device_;
  DomainId id_;
  std::vector<Audience> audience_;
  std::vector<ShmBuffer*> buffers_;
};

class ShmBuffer final : public RegisteredBuffer {
 public:
  static Result<std::unique_ptr<ShmBuffer>> create(ShmDomain& domain, std::size_t size_bytes,
                                                   BufferUse use);
  ~ShmBuffer() override;
  ShmBuffer(const ShmBuffer&) = delete;
  ShmBuffer& operator=(const ShmBuffer&) = delete;

  std::span<std::byte> bytes() const override { return mapping_.bytes(); }
  LocalKey lkey() const override { return LocalKey(key_.value); }
  RemoteKey rkey() const override { return key_; }
  RemoteAddress address() const override { return address_; }
  const ShmDomain& domain() const { return *domain_; }
  const BufferId& id() const { return id_; }
  BufferUse use() const { return use_; }

 private:
  ShmBuffer(ShmDomain& domain, BufferUse use) : domain_(&domain), use_(use) {}

  ShmDomain* domain_;
  BufferUse use_;
  BufferId id_;  // zero for private memory
  Mapping mapping_;
  RemoteKey key_;  // 0 until it is in the table
  RemoteAddress address_;
};

}  // namespace fairlead::rdma::shm
