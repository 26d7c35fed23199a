#include "rdma/shm/channel/shm_remote_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

Result<void> RemoteTable::add_queue_pair(QpNumber number, const RemoteQueuePair& queue_pair) {
  if (queue_pairs_.size() >= kRemoteQueuePairsMax)
    return Error{Errc::kExhausted, "queue pairs of a peer"};
  if (!queue_pairs_.emplace(number, queue_pair).second)
    return Error{Errc::kMalformed, "queue pair announced twice"};
  ++domains_[queue_pair.domain].queue_pairs;
  return {};
}

Result<void> RemoteTable::remove_queue_pair(QpNumber number) {
  const auto found = queue_pairs_.find(number);
  if (found == queue_pairs_.end()) return {};
  const auto domain = domains_.find(found->second.domain);
  queue_pairs_.erase(found);
  std::erase(departed_, number);
  if (--domain->second.queue_pairs != 0) return {};
  const auto keys = std::move(domain->second.keys);
  domains_.erase(domain);
  for (const RemoteKey key : keys) release(key);
  return check_sinks();
}

void RemoteTable::depart(QpNumber number) {
  if (!queue_pairs_.contains(number)) return;
  departed_.push_back(number);
  // Beyond a limit of sinks the next withdrawal says so.
  if (departed_.size() > kDepartedQueuePairsMax) (void)remove_queue_pair(departed_.front());
}

const RemoteQueuePair* RemoteTable::find_queue_pair(QpNumber number) const {
  auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ? nullptr : &found->second;
}

Result<bool> RemoteTable::check_buffer(const ControlMessage& announcement) const {
  if (!domains_.contains(announcement.domain)) return false;
  const std::uint64_t size = announcement.size_bytes;
  if (size == 0 || size > kBufferBytesMax || announcement.address.value + size < size)
    return Error{Errc::kMalformed, "range of an announced buffer"};
  if (buffers_.contains(announcement.rkey))
    return Error{Errc::kMalformed, "buffer announced twice"};
  if (buffers_.size() >= kRemoteBuffersMax || mapped_bytes_ + size > kRemoteBytesMax)
    return Error{Errc::kExhausted, "buffers of a peer"};
  return true;
}

Result<void> RemoteTable::add_buffer(const ControlMessage& announcement, CountedMapping memory) {
  if (memory.bytes().size() < announcement.size_bytes)
    return Error{Errc::kMalformed, "segment smaller than announced"};
  mapped_bytes_ += memory.bytes().size();
  domains_[announcement.domain].keys.insert(announcement.rkey);
  buffers_.emplace(announcement.rkey, Buffer{.mapping = std::move(memory),
                                             .address = announcement.address.value,
                                             .size_bytes = announcement.size_bytes,
                                             .domain = announcement.domain});
  return {};
}

Result<void> RemoteTable::remove_buffer(RemoteKey key) {
  const auto found = buffers_.find(key);
  if (found == buffers_.end()) return {};
  domains_[found->second.domain].keys.erase(key);
  release(key);
  return check_sinks();
}

Result<void> RemoteTable::check_sinks() const {
  if (sinks_.size() > kSinksMax) return Error{Errc::kExhausted, "withdrawn buffers of a peer"};
  return {};
}

// The view given out by QueuePair::remote_memory() must stay valid memory, but not the peer's.
void RemoteTable::release(RemoteKey key) {
  Buffer buffer = std::move(buffers_.extract(key).mapped());
  mapped_bytes_ -= buffer.mapping.bytes().size();
  if (buffer.holders.empty()) return;
  buffer.mapping.detach_from_file();
  sinks_.emplace(key, Sink{std::move(buffer.mapping), std::move(buffer.holders)});
}

RemoteTable::Buffer* RemoteTable::find_buffer(DomainId domain, RemoteKey key, RemoteAddress address,
                                              std::size_t length_bytes) {
  auto found = buffers_.find(key);
  if (found == buffers_.end() || found->second.domain != domain) return nullptr;
  Buffer& buffer = found->second;
  const std::uint64_t offset = address.value - buffer.address;
  if (address.value < buffer.address || offset > buffer.size_bytes ||
      length_bytes > buffer.size_bytes - offset)
    return nullptr;
  return &buffer;
}

std::byte* RemoteTable::find(DomainId domain, RemoteKey key, RemoteAddress address,
                             std::size_t length_bytes) {
  const Buffer* buffer = find_buffer(domain, key, address, length_bytes);
  if (buffer == nullptr) return nullptr;
  return buffer->mapping.bytes().data() + (address.value - buffer->address);
}

std::byte* RemoteTable::find_view(DomainId domain, RemoteKey key, RemoteAddress address,
                                  std::size_t length_bytes, QpNumber holder) {
  Buffer* buffer = find_buffer(domain, key, address, length_bytes);
  if (buffer == nullptr) return nullptr;
  if (std::find(buffer->holders.begin(), buffer->holders.end(), holder) == buffer->holders.end())
    buffer->holders.push_back(holder);
  return buffer->mapping.bytes().data() + (address.value - buffer->address);
}

void RemoteTable::forget_views(QpNumber holder) {
  for (auto& [key, buffer] : buffers_) std::erase(buffer.holders, holder);
  for (auto at = sinks_.begin(); at != sinks_.end();) {
    std::erase(at->second.holders, holder);
    at = at->second.holders.empty() ? sinks_.erase(at) : std::next(at);
  }
}

void RemoteTable::forget_views(QpNumber holder, RemoteKey key) {
  if (const auto found = buffers_.find(key); found != buffers_.end())
    std::erase(found->second.holders, holder);
  auto [at, end] = sinks_.equal_range(key);
  while (at != end) {
    std::erase(at->second.holders, holder);
    at = at->second.holders.empty() ? sinks_.erase(at) : std::next(at);
  }
}

}  // namespace fairlead::rdma::shm
