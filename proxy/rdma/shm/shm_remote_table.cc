#include "rdma/shm/shm_remote_table.h"

#include <algorithm>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

Result<void> RemoteTable::add_queue_pair(QpNumber number, const RemoteQueuePair& queue_pair) {
  if (queue_pairs_.size() >= kRemoteQueuePairsMax)
    return Error{Errc::kExhausted, "queue pairs of a peer"};
  if (!queue_pairs_.emplace(number, queue_pair).second)
    return Error{Errc::kMalformed, "queue pair announced twice"};
  return {};
}

Result<void> RemoteTable::remove_queue_pair(QpNumber number) {
  auto found = queue_pairs_.find(number);
  if (found == queue_pairs_.end()) return {};
  const DomainId domain = found->second.domain;
  queue_pairs_.erase(found);
  if (has_domain(domain)) return {};
  for (auto at = buffers_.begin(); at != buffers_.end();) {
    if (at->second.domain == domain) {
      release(at->first, at->second);
      at = buffers_.erase(at);
    } else {
      ++at;
    }
  }
  return check_sinks();
}

const RemoteQueuePair* RemoteTable::find_queue_pair(QpNumber number) const {
  auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ? nullptr : &found->second;
}

bool RemoteTable::has_domain(DomainId domain) const {
  return std::any_of(queue_pairs_.begin(), queue_pairs_.end(),
                     [&](const auto& entry) { return entry.second.domain == domain; });
}

Result<bool> RemoteTable::check_buffer(const ControlMessage& announcement) const {
  if (!has_domain(announcement.domain)) return false;
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
  buffers_.emplace(announcement.rkey, Buffer{.mapping = std::move(memory),
                                             .address = announcement.address.value,
                                             .size_bytes = announcement.size_bytes,
                                             .domain = announcement.domain});
  return {};
}

Result<void> RemoteTable::remove_buffer(RemoteKey key) {
  auto found = buffers_.find(key);
  if (found == buffers_.end()) return {};
  release(key, found->second);
  buffers_.erase(found);
  return check_sinks();
}

Result<void> RemoteTable::check_sinks() const {
  if (sinks_.size() > kSinksMax) return Error{Errc::kExhausted, "withdrawn buffers of a peer"};
  return {};
}

// The view given out by QueuePair::remote_memory() must stay valid memory, but not the peer's.
void RemoteTable::release(RemoteKey key, Buffer& buffer) {
  mapped_bytes_ -= buffer.mapping.bytes().size();
  if (buffer.holders.empty()) return;
  buffer.mapping.detach_from_file();
  sinks_.push_back({key, std::move(buffer.mapping), std::move(buffer.holders)});
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
  std::erase_if(sinks_, [&](Sink& sink) {
    std::erase(sink.holders, holder);
    return sink.holders.empty();
  });
}

void RemoteTable::forget_views(QpNumber holder, RemoteKey key) {
  if (const auto found = buffers_.find(key); found != buffers_.end())
    std::erase(found->second.holders, holder);
  std::erase_if(sinks_, [&](Sink& sink) {
    if (sink.key == key) std::erase(sink.holders, holder);
    return sink.holders.empty();
  });
}

}  // namespace fairlead::rdma::shm
