// What client and server of a CLC handshake do alike: messages in and out, the place in a link
// group, waits for others, and the end in SMC-R or TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "event/timer_queue.h"
#include "relay/connection/clc_exchange.h"
#include "relay/connection/group_membership.h"
#include "relay/connection/handshake_permit.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"
#include "relay/group/device_slot.h"
#include "smc/negotiate.h"

namespace fairlead::relay {

class HandshakeStage : public Stage {
 public:
  StageResult run(TimePoint now) override;
  StageResult handle_deadline(TimePoint now) override;
  StageResult handle_group_confirmed(TimePoint now) override;
  StageResult handle_group_refused(FallbackReason reason, TimePoint now) override;
  StageResult handle_group_lost(TimePoint now) override;
  StageResult handle_rmb_announced(TimePoint now) override;
  void end(TimePoint now) override;
  SmcRelay* smc() override { return membership_.joined() ? &membership_.relay() : nullptr; }
  FramedRelay* framed() override { return framed_.get(); }
  bool uses(const DeviceSlot& slot) const override { return path_.slot == &slot; }
  // Declines, where the peer hears that.
  void hurry(TimePoint now) override;
  ParkedMode park() override;

 protected:
  using State = smc::Handshake::State;

  // `framed`: of a connection that has been handed over; null if it did not begin in frames.
  HandshakeStage(SessionResources& session, HandshakePermit permit,
                 std::unique_ptr<FramedRelay> framed);

  // A message of the peer is in hand.
  virtual StageResult handle_message(TimePoint now) = 0;
  // First bytes that need not be CLC. Nothing if the handshake shall have them.
  virtual std::optional<StageResult> judge_unread(TimePoint) { return std::nullopt; }
  virtual StageResult handle_stream_end(bool reset, TimePoint now) = 0;
  // The peer has broken the rules, or was silent.
  virtual StageResult handle_failure(const smc::Handshake::Outcome& outcome, TimePoint now) = 0;
  // The peer can find our element.
  virtual void handle_announced(TimePoint now) = 0;
  // The group that was waited for is confirmed, or lost.
  virtual void handle_wait_over(TimePoint) {}
  // False if nothing is awaited of it.
  virtual bool check_client_memory(TimePoint) { return false; }
  virtual StageResult use_tcp(const smc::Handshake::Outcome& outcome);
  FallbackCause cause_of(const smc::Handshake::Outcome& outcome) const;
  // When the peer, which waits for an answer meanwhile, has to be told that none will come.
  virtual TimePoint wait_end(TimePoint now) const = 0;

  smc::Handshake& handshake() { return exchange_.handshake(); }
  bool began_in_frames() const { return framed_ != nullptr; }
  // It has declined, and the peer has not answered the hand-over.
  bool awaits_hand_over() const {
    return framed_ != nullptr && !framed_->deferral().peer_handed_over() && exchange_.begun() &&
           exchange_.handshake().state() == State::kTcp;
  }
  bool awaits_peer() const {
    return exchange_.begun() && exchange_.handshake().state() == State::kAwaitingPeer;
  }
  SessionServices& services() const { return session_.services; }
  Place place() const;
  // Peers of version 1 are in one subnet.
  static bool is_direct(const wire::AcceptConfirm& own) {
    return !own.first_contact_v2 || own.first_contact_v2->direct;
  }
  void arm_timer() { timer_.set(handshake().next_deadline()); }
  // Reads from the peer. Nothing if bytes have come.
  std::optional<StageResult> fetch(TimePoint now);
  // Queues a Decline; TCP follows.
  void decline(FallbackReason reason, TimePoint now, bool out_of_sync = false);
  // Without a Decline: the peer is reset.
  StageResult fail(const char* why);

  Result<Group*> create_group(const PeerKey& key);
  PeerKey peer_key(smc::GroupRole role, const PeerId& peer, const Mac& mac) const;
  // `reason`, unless the device may lock no more memory. To be asked before anything is given back.
  FallbackReason reason_for(const Error& lack, FallbackReason reason);
  // False: the peer knows where our element is. Otherwise handle_announced() follows, or a Decline.
  bool await_announcement(TimePoint now);
  void await_first_contact(TimePoint now);
  wire::AcceptConfirm describe(wire::ClcType type) const;
  Result<void> set_peer();

  // The device that leads to the peer. For a client before the Accept: the one that it offers.
  struct Path {
    DeviceSlot* slot = nullptr;
    rdma::Port port;
    Gid peer_gid;
    std::uint16_t vlan = 0;  // version 1: of the TCP connection
    bool withheld = false;   // a device is, from this peer
  };

  SessionResources& session_;
  HandshakePermit permit_;
  std::unique_ptr<FramedRelay> framed_;
  ClcExchange exchange_;
  Path path_;
  smc::Terms terms_;
  GroupMembership membership_;
  event::Timer timer_;
  bool accept_sent_ = false;
  bool clc_connection_reset_ = false;

 private:
  enum class Wait : std::uint8_t { kNone, kFirstContact, kAnnouncement };
  enum class LastFrames : std::uint8_t { kTaken, kAwaited, kLost };
  LastFrames take_last_frames(TimePoint now);
  std::optional<StageResult> read(TimePoint now);
  StageResult declined(TimePoint now);
  void name_own_obstacle(smc::Handshake::Outcome& outcome);
  void disown_named_link(TimePoint now);

  Wait wait_ = Wait::kNone;
};

}  // namespace fairlead::relay
