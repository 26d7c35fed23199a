// A link group with all it owns on its devices: protection domains, queue pairs, registered slabs,
// and the table of its connections. Performs what smc::LinkGroup asks for. It begins on one device
// and goes to others that lead to the same peers as links ask for them.
//
// Slabs that have stood empty for GroupResources::slab_idle are given back while the group lives,
// but for the last one: those of RMBs when the peer has answered to DELETE_RKEY, those of send
// rings when no write from them is on its way.
//
// A queue pair that has failed stays, for nothing but its name, until its slot is used again:
// messages that it has received may still be polled, and an Accept may be on its way that names it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/paced_lines.h"
#include "base/snapshot.h"
#include "base/stats.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/buffer_slabs.h"
#include "relay/link_device.h"
#include "relay/peer_rings.h"
#include "relay/reachability.h"
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

// What the groups of a worker share.
struct GroupResources {
  std::vector<LinkDevice*> devices;  // all there are, in the order in which they are preferred
  MemoryBudget* budget = nullptr;
  event::TimerQueue* timers = nullptr;
  WorkerStats* stats = nullptr;
  smc::GroupTimes times;
  Duration slab_idle{};  // how long a slab without connections is kept
  const Clock* clock = nullptr;
  TimePoint now() const { return clock->now(); }
  std::vector<Group*> changed;  // protocol().poll_event() may have something; may be repeated
  PacedLines lines;             // that peers can cause
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
// whose last message finds no queue pair repeats it without end on some devices.
inline constexpr Duration kClosingWait = std::chrono::seconds(2);
// How often writes from a send ring are looked at that are on their way long after its connections.
inline constexpr Duration kSlabRecheck = std::chrono::seconds(1);

// What a connection asks for: an element, and what it sends from or to.
struct RingSizes {
  BufferSizes own;
  // Of the peer's element, which a client knows. A server assumes that of its own element, and so a
  // client of our kind takes none that is larger.
  std::optional<std::uint32_t> peer_bytes;
};

// State of a group and its queue pairs, and the message ring that a channel to its peer may need.
inline constexpr std::size_t kGroupBytes = 96 * 1024;
// A new link group leaves this part of memory.limit. Connections without one are TCP, and need the
// rest for their sockets.
inline constexpr std::size_t kGroupsLeave = 4;

struct GroupStart {
  std::string id;
  smc::GroupRole role = smc::GroupRole::kClient;
  PeerId peer;
  smc::Terms terms;
  LinkDevice* device = nullptr;  // of the first link
  rdma::Port port;               // likewise
  std::optional<Place> place;    // what other links lead from and to; wanted where there may be any
  unsigned links_max = 1;
  std::uint32_t random = 0;
};

class Group {
 public:
  static Result<std::unique_ptr<Group>> create(GroupResources& shared, const GroupStart& start,
                                               TimePoint now);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& id() const { return start_.id; }
  smc::LinkGroup& protocol() { return protocol_; }
  const smc::LinkGroup& protocol() const { return protocol_; }
  // Nothing where a link has no queue pair, be it a failed one.
  rdma::QueuePair* queue_pair(smc::LinkIndex link) const { return lanes_[link].queue_pair.get(); }
  const rdma::Port& port(smc::LinkIndex link) const { return lanes_[link].port; }
  smc::LinkIdentity identity(smc::LinkIndex link) const;
  // The link that ends, or has ended, at this queue pair of the peer. The MAC counts in version 1.
  std::optional<smc::LinkIndex> link_to(QpNumber queue_pair, const Gid& gid, const Mac& mac) const;
  // A link of the group leads to that port of the peer; likewise.
  bool leads_to(const Gid& peer, const Mac& mac) const;
  // Under which key the peer reaches a slab of RMBs over a link that has a queue pair.
  smc::RmbKey rmb_key(std::uint16_t slab, smc::LinkIndex link) const;
  BufferSlabs& rmbs() { return *rmbs_; }
  const BufferSlabs& rmbs() const { return *rmbs_; }
  smc::ConnectionTable<SmcRelay>& connections() { return table_; }
  const smc::ConnectionTable<SmcRelay>& connections() const { return table_; }

  // Connects the queue pair of the first link.
  Result<void> connect_first_link(const rdma::PeerEndpoint& peer);
  // Begins to confirm the first link, which is connected.
  void start_first_contact(TimePoint now);

  // A token and an element; kExhausted when there are none.
  struct Seat {
    AlertToken token;
    smc::ElementId element;
  };
  Result<Seat> take_seat(const BufferSizes& sizes, smc::LinkIndex link);
  enum class Telling : std::uint8_t {
    kUnderWay,  // the seat must not be named before the group has news of that
    kDone,      // the peer can find the element on all links
    kRefused,   // the peer does not take its key: the seat is of no use
  };
  Telling telling(const Seat& seat);
  // `quarantine`: the peer may still write into the element, so it stays taken. A group with too
  // many of them ends with its last connection.
  void leave_seat(const Seat& seat, smc::LinkIndex link, bool quarantine, TimePoint now);
  // Takes connections, as far as we are concerned.
  bool has_room() const {
    return protocol_.links().has_room_for_connection() && quarantined_ < kQuarantinedMax &&
           !peer_rings_.crowded();
  }
  // A send ring, or where the peer's memory is addressable, the budget for the peer's element.
  // Taken with the seat, because nobody can decline any more once the peer has confirmed.
  Result<void> take_send_ring(SmcRelay& relay, const RingSizes& sizes);
  // The way to the peer's element, which was named on link `named` (empty if that link has been
  // deleted since): its memory where addressable, else the send ring.
  Result<void> prepare_sending(SmcRelay& relay, const PeerElement& element,
                               std::optional<smc::LinkIndex> named, AlertToken peer_token);
  void release_sending(SmcRelay& relay);
  // The peer has deleted the key of a slab: what was paid for its elements is free again, and its
  // memory is let go of as soon as no connection uses it.
  void forget_peer_rings(RemoteKey rkey);

  void handle_message(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  // Owners of connections whose staged bytes were freed are told.
  void handle_send_done(smc::LinkIndex link, rdma::WorkId id);
  // A connection of the link has reason to think that the peer is gone, or does not know the link.
  void doubt(smc::LinkIndex link, smc::Doubt why, TimePoint now);
  void handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now);
  // Only where another link is left: what goes over this one would find out by itself.
  void handle_port_down(const LinkDevice& device, PortNumber port, TimePoint now);
  void handle_port_up(const LinkDevice& device, PortNumber port, TimePoint now);
  void handle_device_down(const LinkDevice& device, TimePoint now);
  // Something of the group lives on the device.
  bool uses(const LinkDevice& device) const;

  // Tells the peer that the group is gone.
  void terminate(const char* why);

  void mark_dirty(SmcRelay& relay);
  bool dirty() const {
    return !dirty_.empty() || llc_waiting_.has_value() || llc_due_ || !last_words_.empty();
  }
  // Sends what is due as far as the links have room.
  void flush(TimePoint now);
  // REQUIRES: terminated. True when both sides have said and heard their last words, or no link is
  // left to say them on.
  bool parted() const;

  // Called for a connection whose windows or state changed by a message.
  LinkGroupRow row(unsigned worker, TimePoint now) const;

  void set_peer_host(const std::array<char, 32>& padded);
  void set_round_trip(smc::LinkIndex link, Duration round_trip) {
    lanes_[link].round_trip = round_trip;
  }

 private:
  bool at_port(const rdma::PeerEndpoint& peer, const Gid& gid, const Mac& mac) const;
  struct SendRecord {
    rdma::WorkId id{};
    AlertToken token;
    std::uint64_t sequence = 0;
    std::uint64_t staged_until = 0;
  };
  // The last message of a connection that has gone since. Its peer waits for it.
  struct LastWord {
    rdma::WorkId id{};
    AlertToken token;
    std::array<std::byte, wire::kCdcBytes> message{};
  };
  // What the group has on one device.
  struct Foothold {
    LinkDevice* on = nullptr;
    // Its own makes this peer's keys worthless to every other.
    std::unique_ptr<rdma::ProtectionDomain> domain;
    // Where one for all groups cannot be, and one for all links of this group can.
    std::unique_ptr<ReceivePool> own_pool;
  };
  // A port of a device.
  struct Outlet {
    LinkDevice* device = nullptr;
    rdma::Port port;
  };
  // A link's queue pair and what is on its way there.
  struct Lane {
    std::unique_ptr<ReceivePool> own_pool;  // where none can be for several queue pairs
    std::unique_ptr<rdma::QueuePair> queue_pair;
    std::size_t foothold = 0;  // the one that it stands on
    rdma::Port port;
    rdma::PeerEndpoint peer;
    BoundedQueue<SendRecord> records{kSendRequestsPerLink};
    std::list<LastWord> last_words;  // kSendRequestsPerLink at most; where links can be added
    std::uint64_t next_id = 1;       // goes on when the slot is used again
    std::uint64_t done_id = 0;       // of the last request that is known to be over
    unsigned unsignaled = 0;
    Duration round_trip{};
    bool failed = false;
  };

  Group(GroupResources& shared, const GroupStart& start, TimePoint now);
  bool several_links() const { return protocol_.links().max() > 1; }
  Result<std::size_t> set_foot(LinkDevice& device);
  LinkDevice& device_of(const Lane& lane) const { return *footholds_[lane.foothold].on; }
  Result<void> make_lane(smc::LinkIndex link, const Outlet& outlet);
  Result<ReceivePool*> pool_for(Lane& lane);
  void drop_lane(smc::LinkIndex link);
  void want_link(TimePoint now);
  void perform_tasks(TimePoint now);
  void prepare_link(const smc::LinkTask& task, TimePoint now);
  void connect_link(const smc::LinkTask& task, TimePoint now);
  void move_connections(const smc::LinkTask& task, TimePoint now);
  bool move(SmcRelay& relay);
  std::vector<Outlet> outlets() const;
  std::optional<Outlet> outlet_for_link(const smc::LinkPeer& peer) const;
  bool outlet_taken(const Outlet& outlet, bool may_be_spare) const;
  Result<smc::RmbElement> find_element(const SmcBuffers& buffers, smc::LinkIndex on) const;
  Result<void> open_way(SmcRelay& relay, const smc::RmbElement& element);
  Result<void> list_slabs(smc::LinkIndex link);
  void set_timer();
  void drop_views(RemoteKey rkey);
  // group_slabs.cc
  void bar_refused_slabs();
  void return_slabs(TimePoint now);
  void return_rmbs(TimePoint now);
  void return_send_rings(TimePoint now);
  void note_last_writes(const SmcRelay& relay);
  bool writes_over(std::uint16_t slab) const;
  std::optional<TimePoint> slabs_due() const;
  bool fail_lane(smc::LinkIndex link);
  void handle_cdc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  void handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  Result<void> check_memory_of(smc::LinkIndex link, const wire::LlcMessage& message);
  Result<void> check_peer_memory(smc::LinkIndex link, const smc::RmbKey& key);
  bool flush_llc(SendBatch& batch, TimePoint now);
  bool transmit(SmcRelay& relay, SendBatch& batch);
  void flush_last_words(SendBatch& batch, TimePoint now);
  void keep_last_word(Lane& lane, const SmcRelay& relay, rdma::WorkRequest& request);
  void post(SendBatch& batch, TimePoint now);
  void protocol_changed(TimePoint now);
  void count_state(std::optional<smc::GroupType> type);  // nothing: the group is no more
  Counter& counter_of(smc::GroupType type) const;

  GroupResources& shared_;
  const GroupStart start_;
  smc::LinkGroup protocol_;
  std::vector<Foothold> footholds_;  // kLinksMax at most; the first is that of the first link
  MemoryCharge charge_;              // kGroupBytes
  PeerRings peer_rings_;
  std::unique_ptr<BufferSlabs> rmbs_;
  std::unique_ptr<BufferSlabs> staging_;
  std::array<Lane, smc::kLinksMax> lanes_;
  smc::ConnectionTable<SmcRelay> table_;
  std::string peer_host_;
  std::vector<SmcRelay*> dirty_;
  std::vector<SmcRelay*> flushing_;
  std::optional<smc::LlcToSend> llc_waiting_;
  bool llc_due_ = false;
  std::array<std::optional<smc::RmbRow>, smc::kSlabsMax> rows_;  // by slab of RMBs
  // By slab of send rings and link: the last request that may read there.
  std::vector<std::array<std::uint64_t, smc::kLinksMax>> last_reads_;
  std::optional<TimePoint> recheck_;  // of send rings that could not be given back yet
  std::list<LastWord> last_words_;    // that died with their link, to be said on another
  unsigned quarantined_ = 0;
  std::optional<smc::GroupType> counted_type_;
  unsigned counted_links_ = 0;
  bool performing_ = false;
  event::Timer timer_;
};

}  // namespace fairlead::relay
