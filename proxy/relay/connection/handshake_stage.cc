#include "relay/connection/handshake_stage.h"

#include <cerrno>
#include <span>
#include <string_view>

#include "base/log.h"
#include "relay/connection/frames_stage.h"
#include "smc/cursor.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

// No CLC message begins like that.
bool is_return(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes[0] == static_cast<std::byte>(wire::FrameType::kReturn);
}

}  // namespace

HandshakeStage::HandshakeStage(SessionResources& session, HandshakePermit permit,
                               std::unique_ptr<FramedRelay> framed)
    : session_(session),
      permit_(std::move(permit)),
      framed_(std::move(framed)),
      timer_(session.services.timers, [&session] { session.host.handle_stage_deadline(); }) {}

StageResult HandshakeStage::run(TimePoint now) {
  event::Stream& net = *session_.net;
  while (wait_ == Wait::kNone) {
    // What the peer said before a reset comes first.
    const LastFrames frames = framed_ ? take_last_frames(now) : LastFrames::kTaken;
    if (frames == LastFrames::kLost) return fail("the peer's stream has ended");
    if (framed_ && !framed_->towards_net().flush()) {
      if (net.take_error() == 0) return Stay{};
      return fail("the peer reset the connection at its hand-over");
    }
    const ClcExchange::Written written = exchange_.write(net);
    if (written == ClcExchange::Written::kReset)
      return fail("the peer reset the connection during the handshake");
    if (written == ClcExchange::Written::kBlocked || frames == LastFrames::kAwaited) return Stay{};
    switch (handshake().state()) {
      case State::kAwaitingPeer:
      case State::kAwaitingLink:
        if (std::optional<StageResult> result = read(now)) return std::move(*result);
        break;
      case State::kInHand: {
        StageResult result = handle_message(now);
        if (!std::holds_alternative<Stay>(result)) return result;
        break;
      }
      case State::kEstablished:
        if (!handshake().output_empty()) return Stay{};  // the Confirm waits for room
        return UseSmc{std::move(membership_), std::move(framed_), clc_connection_reset_,
                      std::move(exchange_.unread())};
      case State::kTcp:
        return declined(now);
      case State::kFailed:
        return handle_failure(handshake().outcome(), now);
    }
  }
  return Stay{};
}

// What the peer has sent before its hand-over. What follows that is CLC.
HandshakeStage::LastFrames HandshakeStage::take_last_frames(TimePoint now) {
  FramedIn& in = framed_->towards_app();
  RelayStep step = in.pump();
  if (step == RelayStep::kRefused) {
    // What the application said before it went is read by the relay that follows.
    session_.app->assume_readable();
    in.discard();
    step = in.pump();
  }
  session_.report.count(Transport::kShort, framed_->towards_net().bytes(), in.bytes(), now);
  if (!framed_->deferral().peer_handed_over())
    return in.lost() ? LastFrames::kLost : LastFrames::kAwaited;
  std::vector<std::byte> behind = in.release_behind();
  if (!behind.empty()) exchange_.unread() = std::move(behind);
  return LastFrames::kTaken;
}

// Nothing if the handshake has been given something.
std::optional<StageResult> HandshakeStage::read(TimePoint now) {
  if (exchange_.unread().empty())
    if (std::optional<StageResult> result = fetch(now)) return result;
  if (std::optional<StageResult> result = judge_unread(now)) return result;
  // The peer has the link already, and goes back to frames: that is for the stage that follows.
  if (handshake().state() == State::kAwaitingLink && is_return(exchange_.unread())) return Stay{};
  exchange_.take(now);
  arm_timer();
  return std::nullopt;
}

std::optional<StageResult> HandshakeStage::fetch(TimePoint now) {
  switch (exchange_.fetch(*session_.net)) {
    case ClcExchange::Fetched::kBytes:
      return std::nullopt;
    case ClcExchange::Fetched::kNothing:
      return Stay{};
    case ClcExchange::Fetched::kEnd:
      return handle_stream_end(false, now);
    case ClcExchange::Fetched::kReset:
      return handle_stream_end(true, now);
  }
  return Stay{};
}

StageResult HandshakeStage::handle_deadline(TimePoint now) {
  if (wait_ != Wait::kNone) {
    session_.note(wait_ == Wait::kAnnouncement
                      ? "telling the peer of our memory took too long"
                      : "the first contact of another connection took too long");
    decline(FallbackReason::kHandshakeTimeout, now);
    return Stay{};
  }
  if (framed_ && (!framed_->deferral().peer_handed_over() || !framed_->towards_net().flush())) {
    constexpr const char* kLate = "no hand-over in time";
    session_.report.frames_refused(session_.peer(), kLate);
    return fail(kLate);
  }
  handshake().handle_deadline(now);
  if (check_client_memory(now)) return Stay{};
  arm_timer();  // the wait for a Decline of the peer's follows that for the link
  session_.mark_ready();
  return Stay{};
}

void HandshakeStage::decline(FallbackReason reason, TimePoint now, bool out_of_sync) {
  session_.note("declined");
  membership_.abort_first_contact(now);
  // A client that has our Accept may be writing already.
  membership_.leave(now, accept_sent_);
  handshake().decline(reason, out_of_sync);
  timer_.cancel();
  wait_ = Wait::kNone;
  services().groups.stop_waiting(session_.host);
  session_.mark_ready();
}

// Only the peer can be the cause. What it said in frames before still goes to the application.
StageResult HandshakeStage::fail(const char* why) {
  if (!framed_) return End{why};
  LogEvent(LogLevel::kDebug, "relay.session", "handshake_failed")
      .field("conn", session_.report.id())
      .field("why", why);
  const TimePoint now = session_.now();
  membership_.abort_first_contact(now);
  membership_.leave(now, true);
  return UseStage{std::make_unique<FramesStage>(session_, std::move(framed_))};
}

// Both sides know that the stream is TCP from here on.
StageResult HandshakeStage::declined(TimePoint now) {
  smc::Handshake::Outcome outcome = handshake().outcome();
  const bool by_peer = outcome.side == Side::kPeer;
  // It had the link when this side gave it up.
  if (!by_peer && handshake().peer_may_have_declined() && is_return(exchange_.unread()))
    return fail("the peer has gone back to frames");
  if (by_peer) {
    session_.note("the peer declined");
    if (outcome.out_of_sync && membership_.joined()) disown_named_link(now);
  }
  // Still to do when the peer declined, or the handshake gave up by itself: then the peer may yet
  // write to our element.
  membership_.abort_first_contact(now);
  membership_.leave(now, !by_peer);
  if (by_peer) name_own_obstacle(outcome);
  return use_tcp(outcome);
}

// The peer does not know the link of our Accept. Or somebody says so who has its address and claims
// its id: what only the peer can do, to answer on the link, decides.
void HandshakeStage::disown_named_link(TimePoint now) {
  if (membership_.is_first_contact()) return;  // ends with its only link
  if (const std::optional<smc::LinkIndex> link = membership_.named_link())
    membership_.group().doubt(*link, smc::Doubt::kDisowned, now);
}

// The peer can only say that no device reaches this proxy. The cause is here where the Proposal
// named no RNIC: the path is encrypted, or no RNIC works.
void HandshakeStage::name_own_obstacle(smc::Handshake::Outcome& outcome) {
  if (outcome.reason != FallbackReason::kNoRdmaDevice) return;
  FallbackReason own = FallbackReason::kNoRdmaDevice;
  if (path_.withheld)
    own = FallbackReason::kIpsec;
  else if (session_.outbound() && path_.slot != nullptr &&
           !path_.slot->reachability().leaves_node())
    own = services().devices.no_device_reason();
  if (own == FallbackReason::kNoRdmaDevice) return;
  session_.note("no RNIC was offered to the peer");
  outcome.side = Side::kLocal;
  outcome.reason = own;
}

StageResult HandshakeStage::use_tcp(const smc::Handshake::Outcome& outcome) {
  UseTcp tcp;
  tcp.cause = cause_of(outcome);
  tcp.unread = std::move(exchange_.unread());
  tcp.late_decline = exchange_.begun() && handshake().peer_may_have_declined();
  if (tcp.late_decline) {
    // Of which a part may have come.
    const std::span<const std::byte> begun = handshake().unconsumed();
    tcp.unread.insert(tcp.unread.begin(), begun.begin(), begun.end());
  }
  tcp.framed = std::move(framed_);
  return tcp;
}

FallbackCause HandshakeStage::cause_of(const smc::Handshake::Outcome& outcome) const {
  FallbackCause cause{outcome.side, outcome.reason, outcome.peer_code, outcome.detail, {}, {}};
  if (path_.slot != nullptr) {
    cause.device = path_.slot->device().name();
    cause.pnet = path_.slot->reachability().pnet(path_.port).id;
  }
  return cause;
}

StageResult HandshakeStage::handle_group_confirmed(TimePoint now) {
  // Who is telling the peer came when the group was confirmed, but this was not news yet.
  if (wait_ == Wait::kAnnouncement) return Stay{};
  if (wait_ == Wait::kFirstContact) {
    wait_ = Wait::kNone;
    session_.note("the first contact of another connection is done");
    handle_wait_over(now);
  } else if (handshake().state() == State::kAwaitingLink) {
    // A server has waited for the client's memory. A client can access that of the server from now
    // on, because the server connects its queue pair after the Confirm.
    if (session_.outbound() && !set_peer()) {
      session_.note("the memory of the peer has not come");
      decline(FallbackReason::kHandshakeTimeout, now);
      return Stay{};
    }
    handshake().link_confirmed();
  }
  session_.mark_ready();
  return Stay{};
}

StageResult HandshakeStage::handle_group_refused(FallbackReason reason, TimePoint now) {
  if (handshake().state() == State::kAwaitingLink) decline(reason, now);
  return Stay{};
}

StageResult HandshakeStage::handle_group_lost(TimePoint now) {
  membership_.leave(now, true);
  if (wait_ != Wait::kNone && !session_.outbound()) {
    wait_ = Wait::kNone;
    handle_wait_over(now);  // this one makes the first contact instead
    session_.mark_ready();
    return Stay{};
  }
  const State state = handshake().state();
  if (wait_ != Wait::kNone || state == State::kAwaitingLink || state == State::kInHand)
    decline(FallbackReason::kNoActiveLink, now);
  // Agreed on, but not begun: the peer may have begun already.
  if (state == State::kEstablished) return fail("the link group was lost");
  // While the peer is awaited, our Accept names a link that is gone: its Confirm will be declined.
  return Stay{};
}

StageResult HandshakeStage::handle_rmb_announced(TimePoint now) {
  if (wait_ != Wait::kAnnouncement) return Stay{};
  const GroupMemory::Announcement announcement = membership_.announcement();
  if (announcement == GroupMemory::Announcement::kUnderWay) return Stay{};
  wait_ = Wait::kNone;
  if (announcement == GroupMemory::Announcement::kRefused) {
    session_.note(kKeysRefused);
    decline(FallbackReason::kMemoryRegistration, now);
    return Stay{};
  }
  timer_.cancel();
  handle_announced(now);
  session_.mark_ready();
  return Stay{};
}

void HandshakeStage::hurry(TimePoint now) {
  if (!exchange_.begun()) return;
  // Before its Confirm a client, and before its Accept a server, wait for others.
  if (wait_ != Wait::kNone || handshake().state() == State::kAwaitingLink)
    decline(FallbackReason::kDraining, now);
}

// What the next process has still to write and to read.
ParkedMode HandshakeStage::park() {
  if (!framed_) return ParkedUndialled{};
  ParkedFrames parked = framed_->park();
  const std::span<const std::byte> output = handshake().output();
  parked.to_net.bytes.insert(parked.to_net.bytes.end(), output.begin(), output.end());
  const std::span<const std::byte> begun = handshake().unconsumed();
  std::vector<std::byte> behind(begun.begin(), begun.end());
  for (const std::vector<std::byte>* const part : {&exchange_.unread(), &parked.behind})
    behind.insert(behind.end(), part->begin(), part->end());
  parked.behind = std::move(behind);
  parked.accept_sent = accept_sent_;
  parked.declined = awaits_hand_over();
  return parked;
}

void HandshakeStage::end(TimePoint now) {
  // Others may wait for the first contact that this one was to make.
  membership_.abort_first_contact(now);
  membership_.leave_at_end(now);
}

Place HandshakeStage::place() const {
  Place place(*session_.net, std::nullopt);
  place.version = terms_.version;
  return place;
}

// The groups that a peer with this GID and MAC can have by the version that was agreed on.
PeerKey HandshakeStage::peer_key(smc::GroupRole role, const PeerId& peer, const Mac& mac) const {
  PeerKey key{role, peer, path_.peer_gid, {}};
  if (role == smc::GroupRole::kServer) key.source = session_.net->peer_address().with_port(0);
  key.version = terms_.version;
  if (key.version == 1) {
    key.mac = mac;
    key.vlan = path_.vlan;
  }
  return key;
}

Result<Group*> HandshakeStage::create_group(const PeerKey& key) {
  GroupStart start;
  start.terms = terms_;
  start.device = &path_.slot->link_device();
  start.port = path_.port;
  start.links_max = services().devices.links_from(*path_.slot, path_.port);
  if (start.links_max > 1) {
    start.place = place().kept();
    start.place->peer_gid = path_.peer_gid;
  }
  const SocketAddress address = key.role == smc::GroupRole::kServer
                                    ? key.source
                                    : session_.destination.unmapped().with_port(0);
  return services().groups.create(key, address, std::move(start));
}

FallbackReason HandshakeStage::reason_for(const Error& lack, FallbackReason reason) {
  session_.note(lack.what);
  if (lack.what == std::string_view(kBudgetSpent)) return FallbackReason::kMemory;
  if (lack.what == std::string_view(kKeysRefused)) return FallbackReason::kMemoryRegistration;
  const rdma::Device& device = path_.slot->device();
  if (lack.code != Errc::kExhausted || device.capabilities().registered_bytes_max == 0)
    return reason;
  // Drivers lock memory of their own, so that the kernel may find the limit reached before we do.
  const std::size_t least_bytes =
      smc::element_bytes(services().devices.buffer_sizes(device).least_code);
  const bool spent = lack.system == ENOMEM || device.registrable_bytes() < least_bytes;
  return spent ? FallbackReason::kMemlockLimit : reason;
}

bool HandshakeStage::await_announcement(TimePoint now) {
  if (membership_.announcement() == GroupMemory::Announcement::kDone) return false;
  session_.note("the peer is told where our memory is");
  wait_ = Wait::kAnnouncement;
  timer_.set(wait_end(now));
  return true;
}

void HandshakeStage::await_first_contact(TimePoint now) {
  session_.note("waiting for the first contact of another connection");
  wait_ = Wait::kFirstContact;
  timer_.set(wait_end(now));
}

Result<void> HandshakeStage::set_peer() {
  Result<void> ready = membership_.set_peer(handshake().answer());
  if (!ready && ready.error().code != Errc::kWouldBlock) session_.note(ready.error().what);
  return ready;
}

wire::AcceptConfirm HandshakeStage::describe(wire::ClcType type) const {
  const bool first_contact = membership_.is_first_contact();
  // Nodes of one cluster's fabric are neighbours as a rule, and the kernel of the node finds the
  // true way to a user's queue pair by itself.
  const LinkTransport& transport = membership_.group().transport();
  const Gid& own = transport.port(membership_.relay().link).gid;
  const bool direct =
      first_contact && path_.slot->reachability().direct(own, path_.peer_gid).value_or(true);
  wire::AcceptConfirm answer =
      smc::make_answer(type, services().offer, terms_, first_contact, direct);
  membership_.describe(answer);
  if (type == wire::ClcType::kConfirm && answer.first_contact_v2) answer.gids.push(answer.gid);
  return answer;
}

}  // namespace fairlead::relay
