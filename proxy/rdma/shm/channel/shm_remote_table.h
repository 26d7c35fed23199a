// What a peer has told about itself on one channel: its queue pairs with the protection domain of
// each, and the buffers of those domains, mapped. Bounded, because a peer may lie and flood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/channel/shm_control.h"
#include "rdma/shm/memory/shm_map_budget.h"

namespace fairlead::rdma::shm {

struct RemoteQueuePair {
  DomainId domain;
  QpNumber destination;  // ours, as the peer says
};

class RemoteTable {
 public:
  // `budget` outlives *this.
  explicit RemoteTable(MapBudget& budget) : budget_(&budget) {}

  // Errors: kExhausted at kRemoteQueuePairsMax, kMalformed for a number that is already there.
  Result<void> add_queue_pair(QpNumber number, const RemoteQueuePair& queue_pair);
  // With the last queue pair of a domain go the domain's buffers. Errors as remove_buffer().
  Result<void> remove_queue_pair(QpNumber number);
  // Ours, to which it sends, is destroyed. The peer may not know yet, and counts on it for the
  // buffers of its domain. So it stays until the peer says that it is gone, or until
  // kDepartedQueuePairsMax others have departed since.
  void depart(QpNumber number);
  const RemoteQueuePair* find_queue_pair(QpNumber number) const;
  std::size_t queue_pair_count() const { return queue_pairs_.size(); }
  MapBudget& budget() const { return *budget_; }

  // False for a buffer of a domain without queue pair, which the caller ignores. Errors:
  // kMalformed, kExhausted at a limit.
  Result<bool> check_buffer(const ControlMessage& announcement) const;
  // REQUIRES: check_buffer() said true. Errors: kMalformed when the memory is smaller than that.
  Result<void> add_buffer(const ControlMessage& announcement, CountedMapping memory);
  // kExhausted at kSinksMax. Unknown keys are ignored: their announcement may have been, too.
  Result<void> remove_buffer(RemoteKey key);

  // Where [address, address + length) of that buffer is mapped; nullptr when the key or the range
  // is not granted to queue pairs of `domain`.
  std::byte* find(DomainId domain, RemoteKey key, RemoteAddress address, std::size_t length_bytes);
  // The same, for a view that the local queue pair `holder` keeps until forget_views().
  std::byte* find_view(DomainId domain, RemoteKey key, RemoteAddress address,
                       std::size_t length_bytes, QpNumber holder);

  // `holder` is destroyed: it holds no view any more.
  void forget_views(QpNumber holder);
  // It holds none of this buffer, which may have been withdrawn.
  void forget_views(QpNumber holder, RemoteKey key);
  std::size_t sink_count() const { return sinks_.size(); }

 private:
  using Holders = std::vector<QpNumber>;
  struct Buffer {
    CountedMapping mapping;
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;  // as announced
    DomainId domain;
    Holders holders;
  };
  // The addresses of a withdrawn buffer that a view may still point to.
  struct Sink {
    CountedMapping mapping;
    Holders holders;
  };
  struct Domain {
    std::size_t queue_pairs = 0;
    std::unordered_set<RemoteKey> keys;  // of its buffers
  };

  Buffer* find_buffer(DomainId domain, RemoteKey key, RemoteAddress address,
                      std::size_t length_bytes);
  // Takes the buffer out of buffers_.
  void release(RemoteKey key);
  Result<void> check_sinks() const;

  MapBudget* budget_;
  std::unordered_map<QpNumber, RemoteQueuePair> queue_pairs_;
  std::deque<QpNumber> departed_;  // those of queue_pairs_, the oldest first
  std::unordered_map<DomainId, Domain> domains_;
  std::unordered_map<RemoteKey, Buffer> buffers_;
  std::size_t mapped_bytes_ = 0;
  std::unordered_multimap<RemoteKey, Sink> sinks_;
};

}  // namespace fairlead::rdma::shm
