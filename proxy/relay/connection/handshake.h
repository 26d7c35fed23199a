// What client and server of a CLC handshake have in common: messages in and out, the membership of
// a link group, waits for others, and the end in SMC-R or TCP. OutboundHandshake and
// InboundHandshake are the two stages; each owns a HandshakeCommon and calls these functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "relay/connection/clc_exchange.h"
#include "relay/connection/group_membership.h"
#include "relay/connection/handshake_permit.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"
#include "relay/group/device_slot.h"
#include "smc/clc/negotiate.h"

namespace fairlead::relay {

// What a handshake waits for other than the peer's next message.
enum class HandshakeWait : std::uint8_t {
  kNone,
  kFirstContact,  // of another connection; only on a server
  kAnnouncement,  // the peer must learn the key of our element
};

// The device that leads to the peer. On a client before the Accept, the device that it offers.
struct HandshakePath {
  DeviceSlot* slot = nullptr;
  rdma::Port port;
  Gid peer_gid;
  std::uint16_t vlan = 0;  // of the TCP connection; version 1 only
  bool withheld = false;   // a device is withheld from this peer
};

struct HandshakeCommon {
  // `framed`: the frames of a connection that has been handed over; null if there were none.
  HandshakeCommon(SessionResources& session, HandshakePermit permit,
                  std::unique_ptr<FramedRelay> framed);

  SessionResources& session;
  HandshakePermit permit;
  std::unique_ptr<FramedRelay> framed;
  ClcExchange exchange;
  HandshakePath path;
  smc::Terms terms;
  GroupMembership membership;
  HandshakeWait wait = HandshakeWait::kNone;
  bool accept_sent = false;
  bool clc_connection_reset = false;
  const char* lost_why = "";  // set with HandshakeProgress::kLost
};

// The state of the exchange with the peer.
enum class HandshakeProgress : std::uint8_t {
  kNothing,      // nothing to do until something arrives
  kMessage,      // a message of the peer is in hand
  kEnd,          // the peer's stream has ended
  kReset,        // the peer's stream was reset
  kLost,         // the stream can carry no handshake any more, see lost_why
  kEstablished,  // and everything is sent
  kTcp,          // one side has declined
  kFailed,       // the peer has broken the rules, or was silent
};

// Writes and reads what can be written and read now.
HandshakeProgress advance(HandshakeCommon& common, TimePoint now);
// Reads from the peer. kNothing, kEnd, kReset, or empty if bytes have arrived.
std::optional<HandshakeProgress> fetch(HandshakeCommon& common);

// The first contact cannot be completed.
StageResult refuse_link(HandshakeCommon& common, FallbackReason reason, TimePoint now);
// Handles the deadline of a wait, or of the peer's hand-over. Empty if it was the handshake's own
// deadline, which the handshake has then been told.
std::optional<StageResult> handle_wait_deadline(HandshakeCommon& common, TimePoint now);

// Queues a Decline; TCP follows.
void decline(HandshakeCommon& common, FallbackReason reason, TimePoint now,
             bool out_of_sync = false);
// Ends without a Decline: the peer is reset. What it sent in frames before goes to the application.
StageResult fail(HandshakeCommon& common, const char* why);
// REQUIRES: the state is kEstablished
UseSmc use_smc(HandshakeCommon& common);
// Both sides know that the stream is TCP from here on. Leaves the group, and returns the reason.
// REQUIRES: the state is kTcp
smc::Handshake::Outcome end_declined(HandshakeCommon& common, TimePoint now);
UseTcp use_tcp(HandshakeCommon& common, const smc::Handshake::Outcome& outcome);
FallbackCause cause_of(const HandshakeCommon& common, const smc::Handshake::Outcome& outcome);

// True when the awaited announcement has been made; false if the handshake still waits, or has
// declined.
bool announcement_over(HandshakeCommon& common, TimePoint now);
// False: the peer knows the key of our element. True: RmbAnnounced follows, or `until` passes.
bool await_announcement(HandshakeCommon& common, TimePoint until);
// The common part of client and server when the group is lost.
StageResult lose_group(HandshakeCommon& common, TimePoint now);
// Declines if the handshake waits for others than the peer, because the process ends.
void decline_waiting(HandshakeCommon& common, TimePoint now);
// What the next process must still write and read.
ParkedMode park(HandshakeCommon& common);
// Leaves the group.
void leave(HandshakeCommon& common, TimePoint now);

// True if this side has declined, and the peer has not answered the hand-over.
bool awaits_hand_over(const HandshakeCommon& common);
bool awaits_peer(const HandshakeCommon& common);

// Both set the kHandshake deadline: to `until`, or to that of the handshake itself.
void wait_until(HandshakeCommon& common, TimePoint until);
void wait_for_peer(HandshakeCommon& common);
Place place(const HandshakeCommon& common);
// The key of groups with a peer of this GID and MAC, by the agreed version.
PeerKey peer_key(const HandshakeCommon& common, smc::GroupRole role, const PeerId& peer,
                 const Mac& mac);
Result<Group*> create_group(HandshakeCommon& common, const PeerKey& key);
// `reason`, unless the device may lock no more memory. To be called before anything is given back.
FallbackReason reason_for(HandshakeCommon& common, const Error& lack, FallbackReason reason);
wire::AcceptConfirm describe(HandshakeCommon& common, wire::ClcType type);
Result<void> set_peer(HandshakeCommon& common);
// Version 1 assumes that peers are in one subnet.
bool is_direct(const wire::AcceptConfirm& own);

}  // namespace fairlead::relay
