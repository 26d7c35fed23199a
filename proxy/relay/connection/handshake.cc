#include "relay/connection/handshake.h"

#include <cerrno>
#include <span>

#include "base/log.h"
#include "relay/connection/frames_stage.h"
#include "smc/connection/cursor.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

// No CLC message begins with this byte.
bool is_return(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes[0] == static_cast<std::byte>(wire::FrameType::kReturn);
}

using State = smc::Handshake::State;
using Progress = HandshakeProgress;

// The state of the frames that come before the peer's hand-over.
enum class LastFrames : std::uint8_t { kTaken, kAwaited, kLost };

// Reads what the peer has sent before its hand-over. What follows is CLC.
LastFrames take_last_frames(HandshakeCommon& common, TimePoint now) {
  FramedIn& in = common.framed->towards_app();
  RelayStep step = in.pump();
  if (step == RelayStep::kRefused) {
    // The next relay reads what the application sent before it went.
    common.session.app->assume_readable();
    in.discard();
    step = in.pump();
  }
  common.session.report.count(Transport::kShort, common.framed->towards_net().bytes(), in.bytes(),
                              now);
  if (!common.framed->deferral().peer_handed_over())
    return in.lost() ? LastFrames::kLost : LastFrames::kAwaited;
  std::vector<std::byte> behind = in.release_behind();
  if (!behind.empty()) common.exchange.unread() = std::move(behind);
  return LastFrames::kTaken;
}

// Empty if the handshake has received bytes.
std::optional<Progress> read(HandshakeCommon& common, TimePoint now) {
  if (common.exchange.unread().empty())
    if (const std::optional<Progress> progress = fetch(common)) return progress;
  // The peer has the link already, and returns to frames; the following stage handles that.
  if (common.exchange.handshake().state() == State::kAwaitingLink &&
      is_return(common.exchange.unread()))
    return Progress::kNothing;
  common.exchange.take(now);
  wait_for_peer(common);
  return std::nullopt;
}

// The peer does not know the link of our Accept. Or somebody says so who uses its address and
// claims its id. Only the peer can answer on the link, so a test of the link decides.
void disown_named_link(HandshakeCommon& common, TimePoint now) {
  GroupMembership& membership = common.membership;
  if (membership.is_first_contact()) return;  // ends with its only link
  if (const std::optional<smc::LinkIndex> link = membership.named_link())
    membership.group().doubt(*link, smc::Doubt::kDisowned, now);
}

// The peer can only report that no device reaches this proxy. If the Proposal named no RNIC, the
// cause is here: the path is encrypted, or no RNIC works.
void name_own_obstacle(HandshakeCommon& common, smc::Handshake::Outcome& outcome) {
  if (outcome.reason != FallbackReason::kNoRdmaDevice) return;
  SessionResources& session = common.session;
  const HandshakePath& path = common.path;
  FallbackReason own = FallbackReason::kNoRdmaDevice;
  if (path.withheld)
    own = FallbackReason::kIpsec;
  else if (session.outbound() && path.slot != nullptr && !path.slot->reachability().leaves_node())
    own = session.services.devices.no_device_reason();
  if (own == FallbackReason::kNoRdmaDevice) return;
  session.note("no RNIC was offered to the peer");
  outcome.side = Side::kLocal;
  outcome.reason = own;
}

// True if the peer had the link when this side gave up, and has returned to frames since.
bool peer_went_back(HandshakeCommon& common) {
  const smc::Handshake& handshake = common.exchange.handshake();
  return handshake.outcome().side != Side::kPeer && handshake.peer_may_have_declined() &&
         is_return(common.exchange.unread());
}

}  // namespace

HandshakeCommon::HandshakeCommon(SessionResources& own_session, HandshakePermit own_permit,
                                 std::unique_ptr<FramedRelay> from_frames)
    : session(own_session), permit(std::move(own_permit)), framed(std::move(from_frames)) {}

HandshakeProgress advance(HandshakeCommon& common, TimePoint now) {
  event::Stream& net = *common.session.net;
  const auto lose = [&common](const char* why) {
    common.lost_why = why;
    return Progress::kLost;
  };
  while (common.wait == HandshakeWait::kNone) {
    // What the peer sent before a reset comes first.
    const LastFrames frames = common.framed ? take_last_frames(common, now) : LastFrames::kTaken;
    if (frames == LastFrames::kLost) return lose("the peer's stream has ended");
    if (common.framed && !common.framed->towards_net().flush()) {
      if (net.take_error() == 0) return Progress::kNothing;
      return lose("the peer reset the connection at its hand-over");
    }
    const ClcExchange::Written written = common.exchange.write(net);
    if (written == ClcExchange::Written::kReset)
      return lose("the peer reset the connection during the handshake");
    if (written == ClcExchange::Written::kBlocked || frames == LastFrames::kAwaited)
      return Progress::kNothing;
    switch (common.exchange.handshake().state()) {
      case State::kAwaitingPeer:
      case State::kAwaitingLink:
        if (const std::optional<Progress> progress = read(common, now)) return *progress;
        break;
      case State::kInHand:
        return Progress::kMessage;
      case State::kEstablished:
        // The Confirm may still wait for room.
        return common.exchange.handshake().output_empty() ? Progress::kEstablished
                                                          : Progress::kNothing;
      case State::kTcp:
        return peer_went_back(common) ? lose("the peer has gone back to frames") : Progress::kTcp;
      case State::kFailed:
        return Progress::kFailed;
    }
  }
  return Progress::kNothing;
}

std::optional<HandshakeProgress> fetch(HandshakeCommon& common) {
  switch (common.exchange.fetch(*common.session.net)) {
    case ClcExchange::Fetched::kBytes:
      return std::nullopt;
    case ClcExchange::Fetched::kNothing:
      return Progress::kNothing;
    case ClcExchange::Fetched::kEnd:
      return Progress::kEnd;
    case ClcExchange::Fetched::kReset:
      return Progress::kReset;
  }
  return Progress::kNothing;
}

StageResult refuse_link(HandshakeCommon& common, FallbackReason reason, TimePoint now) {
  if (common.exchange.handshake().state() == State::kAwaitingLink) decline(common, reason, now);
  return Stay{};
}

std::optional<StageResult> handle_wait_deadline(HandshakeCommon& common, TimePoint now) {
  if (common.wait != HandshakeWait::kNone) {
    common.session.note(common.wait == HandshakeWait::kAnnouncement
                            ? "telling the peer of our memory took too long"
                            : "the first contact of another connection took too long");
    decline(common, FallbackReason::kHandshakeTimeout, now);
    return Stay{};
  }
  if (common.framed &&
      (!common.framed->deferral().peer_handed_over() || !common.framed->towards_net().flush())) {
    constexpr const char* kLate = "no hand-over in time";
    common.session.report.frames_refused(common.session.peer(), kLate);
    return fail(common, kLate);
  }
  common.exchange.handshake().handle_deadline(now);
  return std::nullopt;
}

void decline(HandshakeCommon& common, FallbackReason reason, TimePoint now, bool out_of_sync) {
  SessionResources& session = common.session;
  session.note("declined");
  common.membership.abort_first_contact(now);
  // A client that has our Accept may be writing already.
  common.membership.leave(now, common.accept_sent);
  common.exchange.handshake().decline(reason, out_of_sync);
  common.session.deadlines.cancel(DeadlineKind::kHandshake);
  common.wait = HandshakeWait::kNone;
  session.services.groups.stop_waiting(session.host);
  session.mark_ready();
}

// Only the peer can have caused this.
StageResult fail(HandshakeCommon& common, const char* why) {
  if (!common.framed) return End{why};
  SessionResources& session = common.session;
  LogEvent(LogLevel::kDebug, "relay.session", "handshake_failed")
      .field("conn", session.report.id())
      .field("why", why);
  const TimePoint now = session.now();
  common.membership.abort_first_contact(now);
  common.membership.leave(now, true);
  return UseStage{make_stage<FramesStage>(session, std::move(common.framed))};
}

UseSmc use_smc(HandshakeCommon& common) {
  return {std::move(common.membership), std::move(common.framed), common.clc_connection_reset,
          std::move(common.exchange.unread())};
}

smc::Handshake::Outcome end_declined(HandshakeCommon& common, TimePoint now) {
  smc::Handshake::Outcome outcome = common.exchange.handshake().outcome();
  const bool by_peer = outcome.side == Side::kPeer;
  if (by_peer) {
    common.session.note("the peer declined");
    if (outcome.out_of_sync && common.membership.joined()) disown_named_link(common, now);
  }
  // Still needed if the peer declined, or if the handshake gave up by itself. In the latter case
  // the peer may still write to our element.
  common.membership.abort_first_contact(now);
  common.membership.leave(now, !by_peer);
  if (by_peer) name_own_obstacle(common, outcome);
  return outcome;
}

UseTcp use_tcp(HandshakeCommon& common, const smc::Handshake::Outcome& outcome) {
  UseTcp tcp;
  tcp.cause = cause_of(common, outcome);
  tcp.unread = std::move(common.exchange.unread());
  tcp.late_decline =
      common.exchange.begun() && common.exchange.handshake().peer_may_have_declined();
  if (tcp.late_decline) {
    // A part of the Decline may have arrived.
    const std::span<const std::byte> begun = common.exchange.handshake().unconsumed();
    tcp.unread.insert(tcp.unread.begin(), begun.begin(), begun.end());
  }
  tcp.framed = std::move(common.framed);
  return tcp;
}

FallbackCause cause_of(const HandshakeCommon& common, const smc::Handshake::Outcome& outcome) {
  FallbackCause cause{outcome.side, outcome.reason, outcome.peer_code, outcome.detail, {}, {}};
  const HandshakePath& path = common.path;
  if (path.slot != nullptr) {
    cause.device = path.slot->device().name();
    cause.pnet = path.slot->reachability().pnet(path.port).id;
  }
  return cause;
}

bool announcement_over(HandshakeCommon& common, TimePoint now) {
  if (common.wait != HandshakeWait::kAnnouncement) return false;
  const GroupMemory::Announcement announcement = common.membership.announcement();
  if (announcement == GroupMemory::Announcement::kUnderWay) return false;
  common.wait = HandshakeWait::kNone;
  if (announcement == GroupMemory::Announcement::kRefused) {
    common.session.note(kKeysRefused);
    decline(common, FallbackReason::kMemoryRegistration, now);
    return false;
  }
  common.session.deadlines.cancel(DeadlineKind::kHandshake);
  return true;
}

bool await_announcement(HandshakeCommon& common, TimePoint until) {
  if (common.membership.announcement() == GroupMemory::Announcement::kDone) return false;
  common.session.note("the peer is told where our memory is");
  common.wait = HandshakeWait::kAnnouncement;
  wait_until(common, until);
  return true;
}

StageResult lose_group(HandshakeCommon& common, TimePoint now) {
  common.membership.leave(now, true);
  const State state = common.exchange.handshake().state();
  if (common.wait != HandshakeWait::kNone || state == State::kAwaitingLink ||
      state == State::kInHand)
    decline(common, FallbackReason::kNoActiveLink, now);
  // Agreed on, but not begun on this side. The peer may have begun already.
  if (state == State::kEstablished) return fail(common, "the link group was lost");
  // While the peer is awaited, our Accept names a link that is gone: the Confirm will be declined.
  return Stay{};
}

void decline_waiting(HandshakeCommon& common, TimePoint now) {
  if (!common.exchange.begun()) return;
  // A client before its Confirm, and a server before its Accept, wait for others than the peer.
  if (common.wait != HandshakeWait::kNone ||
      common.exchange.handshake().state() == State::kAwaitingLink)
    decline(common, FallbackReason::kDraining, now);
}

ParkedMode park(HandshakeCommon& common) {
  if (!common.framed) return ParkedUndialled{};
  ParkedFrames parked = common.framed->park();
  const smc::Handshake& handshake = common.exchange.handshake();
  const std::span<const std::byte> output = handshake.output();
  parked.to_net.bytes.insert(parked.to_net.bytes.end(), output.begin(), output.end());
  const std::span<const std::byte> begun = handshake.unconsumed();
  std::vector<std::byte> behind(begun.begin(), begun.end());
  for (const std::vector<std::byte>* const part : {&common.exchange.unread(), &parked.behind})
    behind.insert(behind.end(), part->begin(), part->end());
  parked.behind = std::move(behind);
  parked.accept_sent = common.accept_sent;
  parked.declined = awaits_hand_over(common);
  return parked;
}

void leave(HandshakeCommon& common, TimePoint now) {
  // Others may wait for the first contact that this connection was to make.
  common.membership.abort_first_contact(now);
  common.membership.leave_at_end(now);
}

bool awaits_hand_over(const HandshakeCommon& common) {
  return common.framed != nullptr && !common.framed->deferral().peer_handed_over() &&
         common.exchange.begun() && common.exchange.handshake().state() == State::kTcp;
}

bool awaits_peer(const HandshakeCommon& common) {
  return common.exchange.begun() && common.exchange.handshake().state() == State::kAwaitingPeer;
}

void wait_until(HandshakeCommon& common, TimePoint until) {
  common.session.deadlines.set(DeadlineKind::kHandshake, until);
}

void wait_for_peer(HandshakeCommon& common) {
  common.session.deadlines.set(DeadlineKind::kHandshake,
                               common.exchange.handshake().next_deadline());
}

Place place(const HandshakeCommon& common) {
  Place place(*common.session.net, std::nullopt);
  place.version = common.terms.version;
  return place;
}

PeerKey peer_key(const HandshakeCommon& common, smc::GroupRole role, const PeerId& peer,
                 const Mac& mac) {
  PeerKey key{role, peer, common.path.peer_gid, {}};
  if (role == smc::GroupRole::kServer) key.source = common.session.net->peer_address().with_port(0);
  key.version = common.terms.version;
  if (key.version == 1) {
    key.mac = mac;
    key.vlan = common.path.vlan;
  }
  return key;
}

Result<Group*> create_group(HandshakeCommon& common, const PeerKey& key) {
  SessionServices& services = common.session.services;
  const HandshakePath& path = common.path;
  GroupStart start;
  start.terms = common.terms;
  start.device = &path.slot->link_device();
  start.port = path.port;
  start.links_max = services.devices.links_from(*path.slot, path.port);
  if (start.links_max > 1) {
    start.place = place(common).kept();
    start.place->peer_gid = path.peer_gid;
  }
  const SocketAddress address = key.role == smc::GroupRole::kServer
                                    ? key.source
                                    : common.session.destination.unmapped().with_port(0);
  return services.groups.create(key, address, std::move(start));
}

FallbackReason reason_for(HandshakeCommon& common, const Error& lack, FallbackReason reason) {
  common.session.note(lack.what);
  if (lack.code == Errc::kMemoryLimit) return FallbackReason::kMemory;
  if (lack.code == Errc::kPeerRefused) return FallbackReason::kMemoryRegistration;
  const rdma::Device& device = common.path.slot->device();
  if (lack.code != Errc::kExhausted || device.capabilities().registered_bytes_max == 0)
    return reason;
  // Drivers lock memory of their own, so the kernel may reach the limit before our count does.
  const DeviceRegistry& devices = common.session.services.devices;
  const std::size_t least_bytes = smc::element_bytes(devices.buffer_sizes(device).least_code);
  const bool spent = lack.system == ENOMEM || device.registrable_bytes() < least_bytes;
  return spent ? FallbackReason::kMemlockLimit : reason;
}

wire::AcceptConfirm describe(HandshakeCommon& common, wire::ClcType type) {
  const GroupMembership& membership = common.membership;
  const bool first_contact = membership.is_first_contact();
  // Nodes of one cluster's fabric are usually neighbours, and the node's kernel finds the actual
  // route to a user's queue pair by itself.
  const LinkTransport& transport = membership.group().transport();
  const Gid& own = transport.port(membership.relay().link()).gid;
  const HandshakePath& path = common.path;
  const bool direct =
      first_contact && path.slot->reachability().direct(own, path.peer_gid).value_or(true);
  wire::AcceptConfirm answer =
      smc::make_answer(type, common.session.services.offer, common.terms, first_contact, direct);
  membership.describe(answer);
  if (type == wire::ClcType::kConfirm && answer.first_contact_v2) answer.gids.push(answer.gid);
  return answer;
}

Result<void> set_peer(HandshakeCommon& common) {
  Result<void> ready = common.membership.set_peer(common.exchange.handshake().answer());
  if (!ready && ready.error().code != Errc::kWouldBlock) common.session.note(ready.error().what);
  return ready;
}

bool is_direct(const wire::AcceptConfirm& own) {
  return !own.first_contact_v2 || own.first_contact_v2->direct;
}

}  // namespace fairlead::relay
