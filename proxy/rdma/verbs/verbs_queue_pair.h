// A reliable connected queue pair. What crosses the seam as a message is copied: inline into the
// request where the device grants it, else into registered memory of the queue pair.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.h"
#include "rdma/device.h"
#include "rdma/verbs/gid_select.h"
#include "rdma/verbs/path_options.h"
#include "rdma/verbs/verbs_buffer.h"
#include "rdma/verbs/verbs_completions.h"

namespace fairlead::rdma::verbs {

// Messages of more than kShortMessageBytes that may be on their way.
inline constexpr std::uint32_t kLongMessagesMax = 2;

// A port as the device knows it: the seam's view, and what verbs needs besides.
struct VerbsPort {
  Port port;
  bool infiniband = false;     // addressed by LID
  std::vector<GidEntry> gids;  // that may be used
  PathOptions path{};
  GidPolicy policy{};
  std::vector<Gid> named{};              // addresses of the node, as it told us
  GidSource source = GidSource::kTable;  // of port.gid
  std::optional<std::uint16_t> partition_key{};
  std::uint16_t partition_index = 0;  // of the key, in the port's table
};

class VerbsQueuePair final : public QueuePair {
 public:
  // `ports`, `completions` and what `options` names outlive it.
  static Result<std::unique_ptr<VerbsQueuePair>> create(CompletionQueue& completions,
                                                        MemlockAccount& memlock,
                                                        const VerbsPort& port,
                                                        const QueuePairOptions& options);
  ~VerbsQueuePair() override;
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  QpNumber number() const override { return QpNumber{queue_pair_->qp_num}; }
  PacketSeq first_psn() const override { return first_psn_; }
  Result<void> connect(const PeerEndpoint& peer) override;
  Result<void> post(std::span<const WorkRequest> requests) override;
  std::uint32_t send_room() const override;
  Result<std::span<std::byte>> remote_memory(const RemoteSlice& slice,
                                             std::size_t length_bytes) override;
  void fail() override;

  // A completion for this request has come, so everything before it is done. Returns the id that
  // the poster gave, or nothing if the poster wants no completion.
  std::optional<WorkId> take_done(std::uint32_t request, CompletionStatus status);
  // The device says that it is in error. True when nobody has been told yet.
  bool note_fatal();
  PortNumber port() const { return port_.port.number; }
  bool connected() const { return state_ == State::kReady; }

 private:
  enum class State : std::uint8_t { kUnconnected, kReady, kError };
  struct Sent {
    WorkId id{};
    bool long_message = false;
    bool reported = false;  // its poster wants to hear of it
  };

  VerbsQueuePair(CompletionQueue& completions, const VerbsPort& port,
                 const QueuePairOptions& options);
  Result<void> open(MemlockAccount& memlock, const QueuePairOptions& options);
  Result<ibv_qp*> create_with_inline(const QueuePairOptions& options, std::uint32_t inline_bytes);
  Result<void> ready_to_receive(const PeerEndpoint& peer);
  Result<void> ready_to_send();
  Result<void> check(std::span<const WorkRequest> requests) const;
  void fill(std::size_t index, const WorkRequest& request, std::uint32_t& long_messages);
  std::byte* message_slot(std::size_t index, bool is_long, std::uint32_t long_messages);

  CompletionQueue& completions_;
  const VerbsPort& port_;
  Gid gid_;  // local
  bool prefer_roce_v1_;
  State state_ = State::kUnconnected;
  bool fatal_reported_ = false;
  PacketSeq first_psn_;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t reserved_ = 0;
  std::uint32_t serial_ = 0;
  VerbsReceiveQueue* own_receives_ = nullptr;  // that serves nothing else
  BoundedQueue<Sent> sent_;
  std::uint32_t next_request_ = 0;   // number of the next one to be posted
  std::uint32_t long_messages_ = 0;  // in sent_
  std::uint32_t next_long_ = 0;      // slot of the next one
  std::uint32_t unsignaled_ = 0;     // posted since the last signaled one
  std::unique_ptr<VerbsBuffer> messages_;
  QueuePairHandle queue_pair_;
  std::vector<ibv_send_wr> requests_;  // of one post(), kept between uses
  std::vector<ibv_sge> pieces_;
};

}  // namespace fairlead::rdma::verbs
