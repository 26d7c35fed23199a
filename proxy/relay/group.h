// A link group with all it owns on the device: protection domain, queue pairs, registered slabs,
// and the table of its connections. Performs what smc::LinkGroup asks for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "base/snapshot.h"
#include "base/stats.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/buffer_slabs.h"
#include "relay/smc_relay.h"
#include "smc/connection_table.h"
#include "smc/link_group.h"

namespace fairlead::relay {

// Requests of one post(), all of one link; each transmission whole. Kept between uses.
struct SendBatch {
  static constexpr std::size_t kRequestsMax = 64;
  smc::LinkIndex link = 0;
  std::array<rdma::WorkRequest, kRequestsMax> requests{};
  std::array<std::array<std::byte, wire::kCdcBytes>, kRequestsMax> messages{};
  std::size_t count = 0;

  std::size_t room() const { return kRequestsMax - count; }
  rdma::WorkRequest& add() {
    rdma::WorkRequest& request = requests[count++];
    request = {};
    return request;
  }
  // The slot for the bytes of the request that was added last.
  std::array<std::byte, wire::kCdcBytes>& message() { return messages[count - 1]; }
};

// What the groups on one device of a worker share.
struct GroupResources {
  rdma::Device* device = nullptr;
  rdma::ProtectionDomain* receive_domain = nullptr;
  rdma::SharedReceiveQueue* receive_queue = nullptr;
  smc::RmbBudget* budget = nullptr;
  event::TimerQueue* timers = nullptr;
  WorkerStats* stats = nullptr;
  smc::GroupTimes times;
  std::function<TimePoint()> now;
  SendBatch batch;
};

inline constexpr std::uint32_t kSendRequestsPerLink = 256;
// A transmission is at most three writes and one message.
inline constexpr std::uint32_t kRequestsPerTransmit = smc::Transmit::kWritesMax + 1;
// A completion is a wake-up that only gives back room: for the send queue now and then, for a
// connection's send ring once this part of it is taken.
inline constexpr unsigned kSignalEvery = 32;
inline constexpr unsigned kRingShareHeld = 4;
// Elements in quarantine with which a group takes no more connections: a peer that never finishes
// them cannot use up all memory with one group.
inline constexpr unsigned kQuarantinedMax = 32;
// How long a terminated group waits for its last words to be taken and the peer's to come. A peer
// whose last message finds no queue pair repeats it for ever on some devices.
inline constexpr Duration kClosingWait = std::chrono::seconds(2);

class Group {
 public:
  static Result<std::unique_ptr<Group>> create(GroupResources& shared, std::string id,
                                               smc::GroupRole role, const PeerId& peer,
                                               const smc::Terms& terms, const rdma::Port& port,
                                               std::uint32_t random, TimePoint now);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& id() const { return id_; }
  smc::LinkGroup& protocol() { return protocol_; }
  const smc::LinkGroup& protocol() const { return protocol_; }
  rdma::QueuePair& queue_pair(smc::LinkIndex link) { return *lanes_[link].queue_pair; }
  const rdma::PeerEndpoint& peer_endpoint(smc::LinkIndex link) const { return lanes_[link].peer; }
  smc::LinkIdentity identity() const { return identity_; }
  const rdma::Port& port() const { return port_; }
  // REQUIRES: one of this group's local queue pairs
  smc::LinkIndex link_of(QpNumber local_queue_pair) const;
  // The link that ends at this queue pair of the peer.
  std::optional<smc::LinkIndex> link_to(QpNumber peer_queue_pair) const;
  BufferSlabs& rmbs() { return *rmbs_; }
  const BufferSlabs& rmbs() const { return *rmbs_; }
  smc::ConnectionTable<SmcRelay>& connections() { return table_; }
  const smc::ConnectionTable<SmcRelay>& connections() const { return table_; }

  // Connects the queue pair of the first link and begins to confirm it.
  Result<void> connect_first_link(const rdma::PeerEndpoint& peer, TimePoint now);

  // A token and an element; kExhausted when there are none.
  struct Seat {
    AlertToken token;
    smc::ElementId element;
  };
  Result<Seat> take_seat(const BufferSizes& sizes, smc::LinkIndex link);
  // `quarantine`: the peer may still write into the element, so it stays taken. A group with too
  // many of them ends with its last connection.
  void leave_seat(const Seat& seat, smc::LinkIndex link, bool quarantine, TimePoint now);
  // Takes connections, as far as we are concerned.
  bool has_room() const { return protocol_.has_room() && quarantined_ < kQuarantinedMax; }
  // A send ring, where the peer's memory is not addressable. Taken with the seat, because nobody
  // can decline any more once the peer has confirmed.
  Result<void> take_send_ring(SmcRelay& relay, const BufferSizes& sizes);
  // The way to the peer's element: its memory where addressable, else the send ring.
  Result<void> prepare_sending(SmcRelay& relay, const smc::RmbElement& element,
                               AlertToken peer_token);
  void release_sending(SmcRelay& relay);

  void handle_message(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  // Connections whose staged bytes were freed are reported through on_connection_news.
  void handle_send_done(smc::LinkIndex link, rdma::WorkId id);
  // A connection of the link has a sign that the peer is gone.
  void doubt(smc::LinkIndex link, TimePoint now);
  void handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now);

  // Tells the peer that the group is gone.
  void terminate(const char* why);

  void mark_dirty(SmcRelay& relay);
  bool dirty() const { return !dirty_.empty() || llc_waiting_.has_value() || llc_due_; }
  // Sends what is due as far as the links have room.
  void flush(TimePoint now);
  // REQUIRES: terminated. True when both sides have said and heard their last words, or no link is
  // left to say them on.
  bool parted() const;

  // Called for a connection whose windows or state changed by a message.
  std::function<void(SmcRelay&)> on_connection_news;
  std::function<void(Group&)> on_protocol_news;  // protocol().poll_event() has something
  LinkGroupRow row(unsigned worker, TimePoint now) const;

  void set_peer_host(const std::array<char, 32>& padded);
  void set_round_trip(Duration round_trip) { round_trip_ = round_trip; }

 private:
  struct SendRecord {
    rdma::WorkId id{};
    AlertToken token;
    std::uint64_t sequence = 0;
    std::uint64_t staged_until = 0;
  };
  // A link's queue pair and what is on its way there.
  struct Lane {
    std::unique_ptr<rdma::QueuePair> queue_pair;
    rdma::PeerEndpoint peer;
    BoundedQueue<SendRecord> records{kSendRequestsPerLink};
    std::uint64_t next_id = 1;
    unsigned unsignaled = 0;
    bool failed = false;
  };

  Group(GroupResources& shared, std::string id, smc::GroupRole role, const PeerId& peer,
        const smc::Terms& terms, std::uint32_t random, TimePoint now);
  void handle_cdc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  void handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  bool flush_llc(SendBatch& batch);
  bool transmit(SmcRelay& relay, SendBatch& batch);
  void post(SendBatch& batch, TimePoint now);
  void protocol_changed();
  void count_state(bool present);

  GroupResources& shared_;
  std::string id_;
  smc::LinkGroup protocol_;
  std::unique_ptr<rdma::ProtectionDomain> own_domain_;
  rdma::ProtectionDomain* domain_ = nullptr;
  std::unique_ptr<BufferSlabs> rmbs_;
  std::unique_ptr<BufferSlabs> staging_;
  std::array<Lane, smc::kLinksMax> lanes_;
  smc::LinkIdentity identity_;
  rdma::Port port_;
  smc::ConnectionTable<SmcRelay> table_;
  std::string peer_host_;
  Duration round_trip_{};
  std::vector<SmcRelay*> dirty_;
  std::vector<SmcRelay*> flushing_;
  std::optional<smc::LlcToSend> llc_waiting_;
  bool llc_due_ = false;
  unsigned quarantined_ = 0;
  bool counted_active_ = false;
  event::Timer timer_;
};

}  // namespace fairlead::relay
