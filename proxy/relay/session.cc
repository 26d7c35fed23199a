#include "relay/session.h"

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"

namespace fairlead::relay {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Session::Session(SessionServices& services, std::uint64_t number, Direction direction,
                 SocketAddress destination, std::unique_ptr<event::Stream> accepted,
                 SocketMemory memory, TimePoint now)
    : services_(services),
      number_(number),
      direction_(direction),
      destination_(destination),
      memory_(std::move(memory)),
      setup_(std::make_unique<SetUp>(
          services.timers, [this] { on_timer(); }, now)),
      began_(now) {
  std::unique_ptr<event::Stream>& mine = direction == Direction::kOutbound ? app_ : net_;
  mine = std::move(accepted);
  mine->set_handler(this);
}

Session::~Session() {
  if (!setup_) return;
  // The worker ends, and nobody is left whose turn could come.
  setup_->turn = Turn::kNone;
  end_setup();
}

std::string Session::id() const { return session_id(number_); }

void Session::start(Arrival arrival, TimePoint now) {
  setup_->arrival = arrival;
  outbound() ? start_outbound(now) : start_inbound(now);
}

void Session::handle_ready(event::Stream& stream) {
  if (smc_ && &stream == app_.get()) smc_->app_changed();
  services_.host.mark_ready(*this);
}

void Session::note(const char* step) {
  if (setup_) setup_->steps.push_back(step);
}

void Session::run(TimePoint now) {
  switch (phase_) {
    case Phase::kDialing:
      return run_dialing(now);
    case Phase::kFrames:
      return run_frames(now);
    case Phase::kHandshake:
    case Phase::kQueued:
      return run_handshake(now);
    case Phase::kSmc:
      return run_smc(now);
    case Phase::kTcp:
      return run_tcp(now);
    case Phase::kDead:
      return;
  }
}

void Session::on_timer() {
  const TimePoint now = services_.network.now();
  if (setup_ && setup_->turn == Turn::kInLine) return give_up_line(now);
  if (phase_ == Phase::kDialing) return dial_failed(ETIMEDOUT);
  if (phase_ == Phase::kQueued) {
    note(setup_->telling ? "telling the peer of our memory took too long"
                         : "the first contact of another connection took too long");
    return decline(FallbackReason::kHandshakeTimeout, false, now);
  }
  if (phase_ == Phase::kHandshake && framed_ &&
      (!framed_->deferral().peer_handed_over() || !framed_->towards_net().flush()))
    return refuse_peer("no hand-over in time"), fail_handshake("no hand-over in time");
  if (setup_ && setup_->handshake) setup_->handshake->handle_deadline(now);
  if (setup_ && setup_->client_memory_since && handshake_awaits_link())
    return await_client_memory(now);
  arm_timer();  // the wait for a Decline of the peer's follows that for the link
  services_.host.mark_ready(*this);
}

void Session::arm_timer() {
  if (setup_ && setup_->handshake) setup_->timer.set(setup_->handshake->next_deadline());
}

void Session::end_setup() {
  services_.groups.stop_waiting(*this);
  if (setup_->counted) services_.admission.end_handshake(setup_->counted_client);
  end_turn();
  setup_.reset();
}

void Session::record_decision(Transport transport, Side side, const FallbackInfo* info,
                              std::uint32_t peer_code, TimePoint now) {
  Decision decision;
  decision.session = number_;
  decision.time = services_.network.wall_now();
  decision.direction = direction_;
  decision.side = side;
  decision.transport = transport;
  // Worth a system call only where something went wrong.
  if (transport == Transport::kTcp) decision.local = net_->local_address();
  decision.peer = outbound() ? destination_ : net_->peer_address();
  if (info != nullptr) decision.reason = info->reason;
  decision.peer_code = peer_code;
  decision.elapsed_seconds = seconds(now - setup_->began);
  decision.steps = std::move(setup_->steps);
  services_.decisions.add(std::move(decision));
}

void Session::become_smc(TimePoint now) {
  phase_ = Phase::kSmc;
  WorkerStats& stats = services_.stats;
  TrafficStats& traffic = stats.traffic_of(direction_, Transport::kSmcr);
  traffic.connections_total.add();
  traffic.connections_active.add();
  stats.handshake_smcr.observe(seconds(now - setup_->began));
  note("carried over SMC-R");
  services_.fallbacks.report_success(direction_, outbound() ? destination_ : net_->peer_address(),
                                     id(), now);
  LogEvent(LogLevel::kDebug, "relay.session", "smcr")
      .field("conn", id())
      .field("group", smc_->group->id());
  record_decision(Transport::kSmcr, Side::kLocal, nullptr, 0, now);
  if (framed_) {
    const smc::Deferral& deferral = framed_->deferral();
    const bool app_finished = framed_->towards_app().finished();
    const bool app_failed = framed_->towards_app().discards();
    smc_->resume(framed_->towards_app().release_waiting(), deferral.ended(), app_finished,
                 app_failed);
    leave_frames();
  }
  end_setup();
  memory_.become_smc(*net_);
  probe_peer_later();
  services_.host.mark_ready(*this);
}

void Session::become_tcp(Side side, FallbackReason reason, std::uint32_t peer_code,
                         const char* detail, TimePoint now) {
  SMC_ASSERT(app_ != nullptr && net_ != nullptr);
  reason_ = reason;
  WorkerStats& stats = services_.stats;
  stats.fallback_of(direction_, side, reason).add();
  stats.handshake_fallback.observe(seconds(now - setup_->began));
  FallbackEvent event;
  event.direction = direction_;
  event.side = side;
  event.reason = reason;
  event.peer_code = peer_code;
  event.local = net_->local_address();
  event.peer = outbound() ? destination_ : net_->peer_address();
  event.phase = setup_->phase;
  event.elapsed_seconds = seconds(now - setup_->began);
  event.connection = id();
  event.pnet = services_.config.pnet.id;
  if (setup_->slot != nullptr) {
    event.rnic = setup_->slot->device().name();
    if (event.pnet.empty()) event.pnet = setup_->slot->reachability().pnet(setup_->port).id;
  }
  event.detail = detail;
  services_.fallbacks.report(event, now);
  record_decision(Transport::kTcp, side, &fallback_info(reason), peer_code, now);
  if (services_.config.fallback == config::FallbackPolicy::kDeny) {
    stats.refused_of(RefusedFor::kDenied).add();
    return abandon("fallback is denied by configuration");
  }
  phase_ = Phase::kTcp;
  TrafficStats& traffic = stats.traffic_of(direction_, Transport::kTcp);
  traffic.connections_total.add();
  traffic.connections_active.add();
  memory_.become_tcp(*net_);
  tcp_ = std::make_unique<TcpRelay>(*app_, *net_, services_.tcp);
  tcp_->set_copy_bytes(memory_.copy_bytes());
  if (framed_) {
    tcp_->towards_net().resume({}, framed_->deferral().ended());
    tcp_->towards_app().resume(framed_->towards_app().release_waiting(), false);
    leave_frames();
  }
  if (!setup_->unread.empty()) tcp_->towards_app().prepend(setup_->unread);
  if (setup_->handshake && setup_->handshake->peer_may_have_declined())
    tcp_->towards_app().skip_late_decline();
  leave_group(now, false);
  smc_.reset();
  watch_silence();
  probe_peer_later();
  end_setup();
  services_.host.mark_ready(*this);
}

void Session::abandon(const char* why) {
  if (phase_ == Phase::kDead) return;
  LogEvent(LogLevel::kDebug, "relay.session", "abandoned").field("conn", id()).field("why", why);
  if (app_) app_->reset_on_close();
  if (net_) net_->reset_on_close();
  die();
}

void Session::shut_down(const char* why) {
  if (phase_ != Phase::kSmc) return abandon(why);
  Group& group = *smc_->group;
  smc_->connection.abort();
  group.sender().schedule(*smc_);
  group.sender().flush(services_.network.now());
  abandon(why);
}

void Session::die() {
  if (phase_ == Phase::kDead) return;
  if (phase_ == Phase::kSmc || phase_ == Phase::kTcp)
    services_.stats
        .traffic_of(direction_, phase_ == Phase::kSmc ? Transport::kSmcr : Transport::kTcp)
        .connections_active.sub();
  if (framed_) record_short();
  // Others may wait for the first contact that this one was to make.
  if (setup_) fail_forming_group(services_.network.now());
  const bool quarantine = smc_ && !smc_->connection.finished() && !smc_->connection.lost();
  leave_group(services_.network.now(), quarantine);
  if (setup_) end_setup();
  timers_.cancel();
  tcp_.reset();
  framed_.reset();
  app_.reset();
  client_slot_.release();
  net_.reset();
  phase_ = Phase::kDead;
  services_.host.retire(*this);
}

void Session::handle_connection_event() { services_.host.mark_ready(*this); }

void Session::handle_group_confirmed(TimePoint now) {
  // Who is telling the peer came when the group was confirmed, but this was not news yet.
  if (!setup_ || !setup_->handshake || setup_->telling) return;
  if (phase_ == Phase::kQueued) {
    phase_ = Phase::kHandshake;
    note("the first contact of another connection is done");
    answer_proposal(now);
  } else if (setup_->handshake->state() == smc::Handshake::State::kAwaitingLink) {
    // A server has waited for the client's memory. A client can access that of the server from now
    // on, because the server connects its queue pair after the Confirm.
    if (outbound() && !set_peer(setup_->handshake->answer()))
      return decline(FallbackReason::kMemoryRegistration, false, now);
    setup_->handshake->link_confirmed();
  }
  services_.host.mark_ready(*this);
}

void Session::handle_group_refused(FallbackReason reason, TimePoint now) {
  if (!setup_ || !setup_->handshake) return;
  if (setup_->handshake->state() == smc::Handshake::State::kAwaitingLink)
    decline(reason, false, now);
}

void Session::handle_group_lost(TimePoint now) {
  if (phase_ == Phase::kSmc) {
    smc_->connection.handle_link_lost();
    return services_.host.mark_ready(*this);
  }
  if (!setup_ || !setup_->handshake) return;
  leave_group(now, true);
  if (phase_ == Phase::kQueued) {
    setup_->telling = false;
    if (outbound()) return decline(FallbackReason::kNoActiveLink, false, now);
    phase_ = Phase::kHandshake;
    answer_proposal(now);  // this one makes the first contact instead
    return services_.host.mark_ready(*this);
  }
  switch (setup_->handshake->state()) {
    case smc::Handshake::State::kAwaitingLink:
    case smc::Handshake::State::kInHand:
      return decline(FallbackReason::kNoActiveLink, false, now);
    case smc::Handshake::State::kAwaitingPeer:
      // Our Accept names a link that is gone; the peer's Confirm will be declined.
      return;
    case smc::Handshake::State::kEstablished:
      // Agreed on, but not begun: the peer may have begun already.
      return fail_handshake("the link group was lost");
    case smc::Handshake::State::kTcp:
    case smc::Handshake::State::kFailed:
      return;
  }
}

}  // namespace fairlead::relay
