// Driving the CLC handshake over the stream, in either role.

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "relay/session.h"

namespace fairlead::relay {

using State = smc::Handshake::State;
using Kind = event::IoResult::Kind;

void Session::run_dialing(TimePoint now) {
  // What a client said before its reset is still for the server, and TCP shows a server also a
  // connection that was reset at once. Only a handshake needs its peer.
  const bool relayed = outbound() || setup_->plain_reason || setup_->frames_awaited;
  if (!relayed && net_->hung_up() && net_->take_error() != 0)
    return abandon("reset while dialling");
  if (setup_->turn == Turn::kTaken && net_ == nullptr) return dial_net(!setup_->assumed, now);
  event::Stream* dialled = outbound() ? net_.get() : app_.get();
  if (dialled == nullptr || !dialled->connected()) return;
  if (const int error = dialled->take_error(); error != 0) return dial_failed(error);
  outbound() ? net_connected(now) : app_connected(now);
}

void Session::dial_failed(int error) {
  if (error == EMFILE || error == ENFILE) {
    services_.admission.note_refusal(outbound() ? *app_ : *net_, Admission::Refusal::kDescriptors);
    return abandon("descriptors are used up");
  }
  services_.lines.write(LogLevel::kInfo, "relay.session", "dial_failed", services_.network.now(),
                        [&](LogEvent& line) {
                          line.field("conn", id())
                              .field("direction", to_string(direction_))
                              .field("to", to_string(destination_))
                              .field("what", to_string(system_error("connect", error)));
                        });
  abandon("the destination cannot be reached");
}

void Session::run_handshake(TimePoint now) {
  while (phase_ == Phase::kHandshake) {
    // What the peer said before a reset comes first.
    const bool may_read = !framed_ || take_last_frames();
    if (phase_ != Phase::kHandshake) return;
    if (framed_ && !framed_->towards_net().flush()) {
      if (net_->take_error() != 0) fail_handshake("the peer reset the connection at its hand-over");
      return;
    }
    if (!write_handshake() || !may_read) return;
    switch (setup_->handshake->state()) {
      case State::kAwaitingPeer:
      case State::kAwaitingLink:
        if (!read_handshake(now)) return;
        break;
      case State::kInHand:
        message_in_hand(now);
        break;
      case State::kEstablished:
        if (!setup_->handshake->output_empty()) return;  // the Confirm waits for room
        return become_smc(now);
      case State::kTcp:
        return handshake_declined(now);
      case State::kFailed:
        return handshake_failed(now);
    }
  }
}

// False when the session has ended, or when the output must wait for room.
bool Session::write_handshake() {
  smc::Handshake& handshake = *setup_->handshake;
  while (!handshake.output_empty()) {
    if (!net_->writable()) return false;
    const std::span<const std::byte> bytes = handshake.output();
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const event::IoResult result = net_->write({&piece, 1});
    if (result.kind == Kind::kError) {
      fail_handshake("the peer reset the connection during the handshake");
      return false;
    }
    if (result.kind != Kind::kBytes) return false;
    handshake.output_written(result.count);
  }
  return true;
}

// Reads into `unread`. True when there is something.
bool Session::fetch_for_handshake(TimePoint now) {
  if (!net_->readable()) return false;
  std::byte chunk[kHandshakeReadBytes];
  const iovec into{chunk, sizeof chunk};
  const event::IoResult result = net_->read({&into, 1});
  if (result.kind == Kind::kWouldBlock) return false;
  if (result.kind == Kind::kBytes) {
    setup_->unread.insert(setup_->unread.end(), chunk, chunk + result.count);
    return true;
  }
  if (!outbound() && handshake_awaits_link()) {
    // The client has all it wanted: its end may overtake its last LLC message. The link stands
    // or falls by itself, others wait for it, and what became of the connection its CDC says.
    companion_.reset = companion_.reset || result.kind == Kind::kError;
    return false;
  }
  const bool said_nothing = !outbound() && !framed_ && setup_->handshake->proposal_awaited();
  if (said_nothing && result.kind == Kind::kEnd)
    serve_stranger({}, now);
  else
    fail_handshake("the peer closed the connection during the handshake");
  return false;
}

// True when the handshake has been given something.
bool Session::read_handshake(TimePoint now) {
  std::vector<std::byte>& unread = setup_->unread;
  if (unread.empty() && !fetch_for_handshake(now)) return false;
  if (setup_->frames_awaited) {
    const auto& preface = wire::kFramePreface;
    const std::size_t seen = std::min(unread.size(), preface.size());
    if (std::equal(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(seen),
                   preface.begin())) {
      if (seen < preface.size()) return fetch_for_handshake(now);
      begin_in_frames(now);
      return false;
    }
    setup_->frames_awaited = false;
    memory_.keep_ahead(0);
  }
  smc::Handshake& handshake = *setup_->handshake;
  const std::size_t before = handshake.unconsumed().size();
  const std::size_t taken = handshake.handle_bytes(unread, now);
  if (handshake.state() == State::kFailed) {
    // For an application that speaks no CLC, every byte counts.
    const auto earlier = handshake.unconsumed().first(before);
    unread.insert(unread.begin(), earlier.begin(), earlier.end());
  } else {
    unread.erase(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  arm_timer();
  return true;
}

void Session::message_in_hand(TimePoint now) {
  if (outbound()) return handle_accept(now);
  setup_->accept_sent() ? handle_confirm(now) : handle_proposal(now);
}

void Session::decline(FallbackReason reason, bool out_of_sync, TimePoint now) {
  note("declined");
  fail_forming_group(now);
  // A client that has our Accept may be writing already.
  leave_group(now, setup_->accept_sent());
  setup_->handshake->decline(reason, out_of_sync);
  setup_->timer.cancel();
  phase_ = Phase::kHandshake;
  services_.groups.stop_waiting(*this);
  services_.host.mark_ready(*this);
}

void Session::fail_forming_group(TimePoint now) {
  if (!setup_->forms_group || !smc_) return;
  setup_->forms_group = false;
  smc_->group->handle_link_failure(smc_->link, "the first contact failed", now);
}

// The peer can only say that no device reaches this proxy. The cause is here where the Proposal
// named no RNIC: the path is encrypted, or no RNIC works.
void Session::name_own_obstacle(smc::Handshake::Outcome& outcome) {
  if (outcome.reason != FallbackReason::kNoRdmaDevice) return;
  FallbackReason own = FallbackReason::kNoRdmaDevice;
  if (setup_->withheld)
    own = FallbackReason::kIpsec;
  else if (outbound() && setup_->slot != nullptr && !setup_->slot->reachability().leaves_node())
    own = services_.devices.no_device_reason();
  if (own == FallbackReason::kNoRdmaDevice) return;
  note("no RNIC was offered to the peer");
  outcome.side = Side::kLocal;
  outcome.reason = own;
}

// Both sides know that the stream is TCP from here on.
void Session::handshake_declined(TimePoint now) {
  smc::Handshake::Outcome outcome = setup_->handshake->outcome();
  if (outcome.side == Side::kPeer) {
    note("the peer declined");
    if (outcome.out_of_sync && smc_) disown_named_link(now);
  }
  // Still to do when the peer declined, or the handshake gave up by itself: then the peer may yet
  // write to our element.
  fail_forming_group(now);
  leave_group(now, outcome.side == Side::kLocal);
  if (outcome.side == Side::kPeer) name_own_obstacle(outcome);
  setup_->outcome = outcome;
  setup_->plain_reason = outcome.reason;
  if (!outbound() && app_ == nullptr) return dial_app(now);
  become_tcp(outcome.side, outcome.reason, outcome.peer_code, outcome.detail, now);
}

// The peer does not know the link of our Accept. Or somebody says so who has its address and claims
// its id: what only the peer can do, to answer on the link, decides.
void Session::disown_named_link(TimePoint now) {
  if (setup_->forms_group) return;  // ends with its only link
  if (const std::optional<smc::LinkIndex> link = named_link())
    smc_->group->doubt(*link, smc::Doubt::kDisowned, now);
}

void Session::handshake_failed(TimePoint now) {
  smc::Handshake::Outcome outcome = setup_->handshake->outcome();
  if (framed_) {
    refuse_peer(outcome.detail);
    return fail_handshake("the peer broke the rules of frames");
  }
  if (outbound()) return redial_plain(outcome.reason, outcome.detail, now);
  const bool silent = outcome.reason == FallbackReason::kHandshakeTimeout;
  const std::size_t seen = std::min<std::size_t>(setup_->unread.size(), 4);
  // Whatever the handshake still holds after a silence has begun like CLC.
  const bool clc = silent ? !setup_->handshake->unconsumed().empty()
                          : seen != 0 && wire::may_be_clc(std::span(setup_->unread).first(seen));
  // A stranger in an assumed network, or a client whose SYN/ACK lost our option on the way: what it
  // sent is for the application.
  if (!setup_->accept_sent() && !clc && (!silent || setup_->assumed))
    return serve_stranger(outcome, now);
  services_.stats.refused_of(RefusedFor::kHandshake).add();
  services_.lines.write(LogLevel::kWarn, "smc.handshake", "refused", now, [&](LogEvent& line) {
    line.field("conn", id())
        .field("peer", to_string(net_->peer_address()))
        .field("reason", fallback_info(outcome.reason).name)
        .field("phase", setup_->phase)
        .field("detail", outcome.detail);
  });
  fail_forming_group(now);
  abandon("the handshake failed");
}

// A peer that speaks no CLC, whatever its SYN said: what it sends is for the application.
void Session::serve_stranger(smc::Handshake::Outcome outcome, TimePoint now) {
  outcome.reason =
      setup_->assumed ? FallbackReason::kPeerNotInjected : FallbackReason::kOptionStripped;
  note("the peer speaks no CLC");
  setup_->outcome = outcome;
  setup_->plain_reason = outcome.reason;
  setup_->handshake.reset();
  if (app_ == nullptr) return dial_app(now);
  become_tcp(outcome.side, outcome.reason, outcome.peer_code, outcome.detail, now);
}

void Session::enter_handshake(TimePoint now) {
  timers_.wait.reset();
  phase_ = Phase::kHandshake;
  run_handshake(now);
}

// What the peer has sent before its hand-over. True when that has come: what follows is CLC.
bool Session::take_last_frames() {
  FramedIn& in = framed_->towards_app();
  RelayStep step = in.pump();
  if (step == RelayStep::kRefused) {
    // What the application said before it went is read by the relay that follows.
    app_->assume_readable();
    in.discard();
    step = in.pump();
  }
  count_bytes();
  if (framed_->deferral().peer_handed_over()) {
    std::vector<std::byte> behind = in.release_behind();
    if (!behind.empty()) setup_->unread = std::move(behind);
    return true;
  }
  if (in.lost()) fail_handshake("the peer's stream has ended");
  return false;
}

// Only the peer can be the cause. What it said in frames before still goes to the application.
void Session::fail_handshake(const char* why) {
  if (!framed_) return abandon(why);
  LogEvent(LogLevel::kDebug, "relay.session", "handshake_failed")
      .field("conn", id())
      .field("why", why);
  const TimePoint now = services_.network.now();
  fail_forming_group(now);
  leave_group(now, true);
  end_setup();
  phase_ = Phase::kFrames;
  framed_->end_peer();
  services_.host.mark_ready(*this);
}

}  // namespace fairlead::relay
