// What a peer has told about itself on one channel: its queue pairs with the protection domain of
// each, and the buffers of those domains, mapped. Bounded, because a peer may lie and flood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/shm_control.h"
#include "rdma/shm/shm_segment.h"

namespace fairlead::rdma::shm {

struct RemoteQueuePair {
  DomainId domain;
  QpNumber destination;  // ours, as the peer says
};

class RemoteTable {
 public:
  // Errors: kExhausted at kRemoteQueuePairsMax, kMalformed for a number that is already there.
  Result<void> add_queue_pair(QpNumber number, const RemoteQueuePair& queue_pair);
  // With the last queue pair of a domain go the domain's buffers. Errors as remove_buffer().
  Result<void> remove_queue_pair(QpNumber number);
  const RemoteQueuePair* find_queue_pair(QpNumber number) const;
  bool has_queue_pairs() const { return !queue_pairs_.empty(); }

  // Maps an announced buffer; one of a domain without queue pair is ignored. Errors: kMalformed,
  // kExhausted, those of adopt_segment().
  Result<void> add_buffer(const ControlMessage& announcement, int fd);
  // kExhausted at kSinksMax. Unknown keys are ignored: their announcement may have been, too.
  Result<void> remove_buffer(RemoteKey key);

  // Where [address, address + length) of that buffer is mapped; nullptr when the key or the range
  // is not granted to queue pairs of `domain`. `handed_out`: the caller will keep the view.
  std::byte* find(DomainId domain, RemoteKey key, RemoteAddress address, std::size_t length_bytes,
                  bool handed_out);

  // No view is held any more.
  void forget_views() { sinks_.clear(); }

 private:
  struct Buffer {
    Mapping mapping;
    std::uint64_t address = 0;
    DomainId domain;
    bool handed_out = false;
  };
  using Buffers = std::unordered_map<RemoteKey, Buffer>;

  bool has_domain(DomainId domain) const;
  void release(Buffer& buffer);
  Result<void> check_sinks() const;

  std::unordered_map<QpNumber, RemoteQueuePair> queue_pairs_;
  Buffers buffers_;
  std::size_t mapped_bytes_ = 0;
  std::vector<Mapping> sinks_;  // addresses of withdrawn buffers that a view may still point to
};

}  // namespace fairlead::rdma::shm
