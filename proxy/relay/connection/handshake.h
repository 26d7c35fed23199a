// What client and server of a CLC handshake have and do alike: messages in and out, the place in a
// link group, waits for others, and the end in SMC-R or TCP. OutboundHandshake and InboundHandshake
// are the two stages; each owns a HandshakeCommon and calls these functions.
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
#include "smc/negotiate.h"

namespace fairlead::relay {

// What a handshake waits for that the peer does not send it.
enum class HandshakeWait : std::uint8_t {
  kNone,
  kFirstContact,  // of another connection; a server's
  kAnnouncement,  // the peer has to know where our element is
};

// The device that leads to the peer. For a client before the Accept: the one that it offers.
struct HandshakePath {
  DeviceSlot* slot = nullptr;
  rdma::Port port;
  Gid peer_gid;
  std::uint16_t vlan = 0;  // version 1: of the TCP connection
  bool withheld = false;   // a device is, from this peer
};

struct HandshakeCommon {
  // `framed`: of a connection that has been handed over; null if it did not begin in frames.
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
  const char* lost_why = "";  // with HandshakeProgress::kLost
};

// What the messages between the two sides have come to.
enum class HandshakeProgress : std::uint8_t {
  kNothing,      // until something comes
  kMessage,      // of the peer, in hand
  kEnd,          // of the peer's stream
  kReset,        // of the peer's stream
  kLost,         // the stream cannot carry a handshake any more: lost_why says it
  kEstablished,  // and all is sent
  kTcp,          // one of the two has declined
  kFailed,       // the peer has broken the rules, or was silent
};

// Writes and reads what can be written and read now.
HandshakeProgress advance(HandshakeCommon& common, TimePoint now);
// Reads from the peer. kNothing, kEnd, kReset, or nothing if bytes have come.
std::optional<HandshakeProgress> fetch(HandshakeCommon& common);

// First contact cannot be completed.
StageResult refuse_link(HandshakeCommon& common, FallbackReason reason, TimePoint now);
// The deadline of a wait, or of the peer's hand-over. Nothing if it is that of the handshake
// itself, which has been told of it.
std::optional<StageResult> handle_wait_deadline(HandshakeCommon& common, TimePoint now);

// Queues a Decline; TCP follows.
void decline(HandshakeCommon& common, FallbackReason reason, TimePoint now,
             bool out_of_sync = false);
// Without a Decline: the peer is reset. What it said in frames before goes to the application.
StageResult fail(HandshakeCommon& common, const char* why);
// When the state is kEstablished.
UseSmc use_smc(HandshakeCommon& common);
// Both sides know that the stream is TCP from here on. Gives back the place in the group, and says
// why. REQUIRES: the state is kTcp
smc::Handshake::Outcome end_declined(HandshakeCommon& common, TimePoint now);
UseTcp use_tcp(HandshakeCommon& common, const smc::Handshake::Outcome& outcome);
FallbackCause cause_of(const HandshakeCommon& common, const smc::Handshake::Outcome& outcome);

// True when an announcement that was awaited has been made; false if the handshake still waits, or
// has declined.
bool announcement_over(HandshakeCommon& common, TimePoint now);
// False: the peer knows where our element is. Otherwise RmbAnnounced follows, or `until` comes.
bool await_announcement(HandshakeCommon& common, TimePoint until);
// What client and server do alike when the group is lost.
StageResult lose_group(HandshakeCommon& common, TimePoint now);
// Declines where others than the peer are awaited, because the process ends.
void decline_waiting(HandshakeCommon& common, TimePoint now);
// What the next process has still to write and to read.
ParkedMode park(HandshakeCommon& common);
// Gives back the place in the group.
void leave(HandshakeCommon& common, TimePoint now);

// It has declined, and the peer has not answered the hand-over.
bool awaits_hand_over(const HandshakeCommon& common);
bool awaits_peer(const HandshakeCommon& common);

// The deadline of kHandshake is that of `until`, or the handshake's own.
void wait_until(HandshakeCommon& common, TimePoint until);
void wait_for_peer(HandshakeCommon& common);
Place place(const HandshakeCommon& common);
// The groups that a peer with this GID and MAC can have by the version that was agreed on.
PeerKey peer_key(const HandshakeCommon& common, smc::GroupRole role, const PeerId& peer,
                 const Mac& mac);
Result<Group*> create_group(HandshakeCommon& common, const PeerKey& key);
// `reason`, unless the device may lock no more memory. To be asked before anything is given back.
FallbackReason reason_for(HandshakeCommon& common, const Error& lack, FallbackReason reason);
wire::AcceptConfirm describe(HandshakeCommon& common, wire::ClcType type);
Result<void> set_peer(HandshakeCommon& common);
// Peers of version 1 are in one subnet.
bool is_direct(const wire::AcceptConfirm& own);

}  // namespace fairlead::relay
