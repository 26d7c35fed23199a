#include "rdma/shm/memory/shm_buffer.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/channel/shm_channel.h"
#include "rdma/shm/shm_device.h"

namespace fairlead::rdma::shm {
namespace {

constexpr std::uint32_t kIndexMask = kBuffersMax - 1;
static_assert((kBuffersMax & kIndexMask) == 0);

// Addresses look like page-aligned pointers of user space, but are not ours.
constexpr std::uint64_t kAddressMask = 0x00003ffffffff000;
constexpr std::uint64_t kAddressBase = 0x0000100000000000;

}  // namespace

Result<RemoteKey> BufferTable::add() {
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return system_error("getrandom", errno);
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (keys_.size() < kBuffersMax) {
    index = static_cast<std::uint32_t>(keys_.size());
    keys_.emplace_back();
  } else {
    return Error{Errc::kExhausted, "registered buffers"};
  }
  RemoteKey key((random & ~kIndexMask) | index);
  // The key that this index had before is never handed out at once again; 0 means no key.
  if (key == keys_[index] || key.value == 0) key.value ^= kBuffersMax;
  keys_[index] = key;
  return key;
}

void BufferTable::remove(RemoteKey key) {
  const std::uint32_t index = key.value & kIndexMask;
  SMC_ASSERT(index < keys_.size() && keys_[index] == key, key.value);
  free_.push_back(index);
}

ShmDomain::~ShmDomain() { SMC_ASSERT(buffers_.empty() && audience_.empty(), buffers_.size()); }

void ShmDomain::announce(Channel& channel, const ShmBuffer& buffer) {
  device_->announce(channel, ControlMessage{.kind = ControlMessage::Kind::kAnnounce,
                                            .domain = id_,
                                            .rkey = buffer.rkey(),
                                            .address = buffer.address(),
                                            .size_bytes = buffer.bytes().size(),
                                            .buffer = buffer.id()});
}

void ShmDomain::join(Channel& channel) {
  auto found = std::find_if(audience_.begin(), audience_.end(),
                            [&](const Audience& one) { return one.channel == &channel; });
  if (found != audience_.end()) {
    ++found->queue_pairs;
    return;
  }
  audience_.push_back({&channel, 1});
  for (const ShmBuffer* buffer : buffers_) announce(channel, *buffer);
}

void ShmDomain::leave(Channel& channel) {
  auto found = std::find_if(audience_.begin(), audience_.end(),
                            [&](const Audience& one) { return one.channel == &channel; });
  SMC_ASSERT(found != audience_.end());
  if (--found->queue_pairs == 0) audience_.erase(found);
}

void ShmDomain::add(ShmBuffer& buffer) {
  buffers_.push_back(&buffer);
  for (const Audience& one : audience_) announce(*one.channel, buffer);
}

void ShmDomain::remove(ShmBuffer& buffer) {
  std::erase(buffers_, &buffer);
  for (const Audience& one : audience_)
    device_->parts().send(*one.channel, ControlMessage{.kind = ControlMessage::Kind::kWithdraw,
                                                       .rkey = buffer.rkey()});
}

Result<std::unique_ptr<ShmBuffer>> ShmBuffer::create(ShmDomain& domain, std::size_t size_bytes,
                                                     BufferUse use) {
  if (size_bytes == 0 || size_bytes > kBufferBytesMax)
    return Error{Errc::kExhausted, "size of a registered buffer"};
  std::unique_ptr<ShmBuffer> buffer(new ShmBuffer(domain, use));
  if (peer_may_write(use)) {
    Blank blank = SMC_TRY(domain.device().take_buffer());
    buffer->id_ = blank.id;
    buffer->mapping_ = SMC_TRY(map_blank(blank.fd.get(), size_bytes));
    blank.fd.close_here();
  } else {
    buffer->mapping_ = SMC_TRY(Mapping::map_private(size_bytes));
  }
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return system_error("getrandom", errno);
  buffer->address_ = RemoteAddress(kAddressBase + (random & kAddressMask));
  buffer->key_ = SMC_TRY(domain.device().buffers().add());
  if (peer_may_write(use)) domain.add(*buffer);
  return buffer;
}

ShmBuffer::~ShmBuffer() {
  if (key_.value != 0) {
    domain_->device().buffers().remove(key_);
    if (peer_may_write(use_)) domain_->remove(*this);
  }
  if (id_.is_zero()) return;
  // A peer that keeps its mapping keeps none of the pages.
  domain_->device().discard_buffer(std::move(mapping_), id_);
}

}  // namespace fairlead::rdma::shm
