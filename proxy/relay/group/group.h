// A link group with all it owns on its devices, and the table of its connections. It performs what
// smc::LinkGroup asks for: queue pairs (LinkTransport), registered memory (GroupMemory), the peer's
// memory (PeerMemory), messages (GroupSender). It begins on one device, and uses other devices that
// lead to the same peers when links need them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/snapshot.h"
#include "event/timer_queue.h"
#include "relay/group/group_memory.h"
#include "relay/group/group_resources.h"
#include "relay/group/group_sender.h"
#include "relay/group/link_group_report.h"
#include "relay/group/link_transport.h"
#include "relay/group/peer_memory.h"
#include "relay/pipes/smc_relay.h"
#include "smc/group/connection_table.h"
#include "smc/group/link_group.h"

namespace fairlead::relay {

// How long a terminated group waits until its last messages are sent and the peer's have arrived.
// If our queue pair is gone, the peer repeats its last message without end on some devices.
inline constexpr Duration kClosingWait = std::chrono::seconds(2);

// The ring sizes that a connection asks for.
struct RingSizes {
  BufferSizes own;
  // Size of the peer's element. Only a client knows it. A server assumes the size of its own
  // element; a Fairlead client therefore takes no larger one.
  std::optional<std::uint32_t> peer_bytes;
};

// Budget for the state of a group and its queue pairs, and for the message ring that a channel to
// its peer may need.
inline constexpr std::size_t kGroupBytes = 96 * 1024;
// A new link group must leave 1/kGroupsLeave of memory.limit free. Connections without a group use
// TCP and need the rest for their sockets.
inline constexpr std::size_t kGroupsLeave = 4;

class Group final : public LinkFailureHandler {
 public:
  static Result<std::unique_ptr<Group>> create(GroupResources& shared, const GroupStart& start,
                                               TimePoint now);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& id() const { return start_.id; }
  smc::LinkGroup& protocol() { return protocol_; }
  const LinkTransport& transport() const { return transport_; }
  const GroupMemory& memory() const { return memory_; }
  GroupSender& sender() { return sender_; }
  LinkGroupReport& report() { return report_; }
  smc::ConnectionTable<SmcRelay>& connections() { return table_; }

  // Connects the queue pair of the first link.
  Result<void> connect_first_link(const rdma::PeerEndpoint& peer) {
    return transport_.connect(0, peer);
  }
  // Begins to confirm the first link, which is connected.
  void start_first_contact(TimePoint now);

  // A connection's token and element. join() fails with kExhausted or as BufferSlabs::take().
  struct Member {
    AlertToken token;
    smc::ElementId element;
  };
  Result<Member> join(const BufferSizes& sizes, smc::LinkIndex link);
  // `quarantine`: the peer may still write into the element, so it stays taken. A group with too
  // many such elements ends with its last connection.
  void leave(const Member& member, smc::LinkIndex link, bool quarantine, TimePoint now);
  // True if the group accepts another connection, as far as this side can tell.
  bool has_room() const {
    return protocol_.links().has_room_for_connection() && !memory_.quarantine_full() &&
           !peer_memory_.crowded();
  }
  // Takes a send ring or, if the peer's memory is addressable, the budget for the peer's element.
  // This happens together with join(), because neither side can decline once the peer has
  // confirmed.
  Result<void> take_send_ring(SmcRelay& relay, const RingSizes& sizes);
  // Prepares the way to the peer's element: its memory if that is addressable, else the send ring.
  // The element was named on link `named` (empty if that link has been deleted since).
  Result<void> prepare_sending(SmcRelay& relay, const PeerElement& element,
                               std::optional<smc::LinkIndex> named, AlertToken peer_token);
  void release_sending(SmcRelay& relay);

  void handle_message(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  // A connection of the link suspects that the peer is gone or does not know the link.
  void doubt(smc::LinkIndex link, smc::Doubt why, TimePoint now);
  void handle_link_failure(smc::LinkIndex link, const char* why, TimePoint now) override;
  enum class PortChange : std::uint8_t {
    kUp,
    kDown,  // ignored if no other link is left: traffic on this link will detect it
  };
  void handle_port(const LinkDevice& device, PortNumber port, PortChange change, TimePoint now);
  void handle_device_down(const LinkDevice& device, TimePoint now);
  // Handles a protocol event that concerns what the group owns.
  void handle_event(const smc::GroupEvent& event);

  // Tells the peer that the group is gone.
  void terminate(const char* why);
  // REQUIRES: terminated. True when both sides have sent and received their final messages, or no
  // link is left for them.
  bool termination_complete() const;

  LinkGroupRow row(unsigned worker, TimePoint now) const;

 private:
  Group(GroupResources& shared, const GroupStart& start, TimePoint now);
  Result<void> create_link(smc::LinkIndex link, const LinkTransport::PortCandidate& at);
  bool fail_link(smc::LinkIndex link);
  void handle_port_down(const LinkDevice& device, PortNumber port, TimePoint now);
  void handle_port_up(const LinkDevice& device, PortNumber port, TimePoint now);
  void want_link(TimePoint now);
  void perform_tasks(TimePoint now);
  void prepare_link(const smc::LinkTask& task, TimePoint now);
  void connect_link(const smc::LinkTask& task, TimePoint now);
  void move_connections(const smc::LinkTask& task, TimePoint now);
  bool move(SmcRelay& relay);
  void handle_cdc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  void handle_llc(smc::LinkIndex link, std::span<const std::byte> message, TimePoint now);
  void protocol_changed(TimePoint now);
  void set_timer();

  GroupResources& shared_;
  const GroupStart start_;
  smc::LinkGroup protocol_;
  MemoryCharge charge_;  // kGroupBytes
  smc::ConnectionTable<SmcRelay> table_;
  LinkTransport transport_;
  GroupMemory memory_;
  PeerMemory peer_memory_;
  GroupSender sender_;
  LinkGroupReport report_;
  bool performing_ = false;
  event::Timer timer_;
};

}  // namespace fairlead::relay
