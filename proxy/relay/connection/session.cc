#include "relay/connection/session.h"

#include "base/assert.h"
#include "base/log.h"
#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"
#include "relay/connection/smc_stage.h"
#include "relay/connection/tcp_stage.h"

namespace fairlead::relay {

Session::Session(SessionServices& services, std::uint64_t number, Direction direction,
                 const SocketAddress& destination, std::unique_ptr<event::Stream> accepted,
                 SocketMemory memory, TimePoint now)
    : resources_(services, *this, number, direction, destination, std::move(memory), now) {
  std::unique_ptr<event::Stream>& own = resources_.outbound() ? resources_.app : resources_.net;
  own = std::move(accepted);
  own->set_handler(this);
}

Session::~Session() = default;

void Session::start(Arrival arrival, TimePoint now) {
  resources_.arrival = arrival;
  Stage first;
  if (resources_.outbound())
    first = make_stage<OutboundDial>(resources_);
  else
    first = make_stage<InboundDial>(resources_);
  apply(UseStage{std::move(first)}, now);
}

void Session::take_back(ParkedConnection parked, TimePoint now) {
  SMC_ASSERT(parked.app == nullptr || parked.net == nullptr);
  resources_.report.resume(parked);
  if (std::holds_alternative<ParkedUndialled>(parked.mode)) {
    resources_.report.setup_began("accept", now);
    return start(parked.arrival, now);
  }
  resources_.arrival = parked.arrival;
  std::unique_ptr<event::Stream>& dialled = resources_.outbound() ? resources_.net : resources_.app;
  dialled = std::move(resources_.outbound() ? parked.net : parked.app);
  SMC_ASSERT(dialled != nullptr);
  dialled->set_handler(this);
  resources_.kept_slot = parked.client_slot;
  if (parked.client_slot) resources_.services.network.keep_client_slot(*parked.client_slot);
  if (auto* const tcp = std::get_if<ParkedTcp>(&parked.mode)) {
    resources_.report.carried(Transport::kTcp);
    stage_ = make_stage<TcpStage>(resources_, std::move(*tcp));
  } else {
    auto& frames = std::get<ParkedFrames>(parked.mode);
    if (frames.within_handshake())
      resume_handshake(std::move(frames), now - parked.age, now);
    else
      stage_ = make_stage<FramesStage>(resources_, std::move(frames), now - parked.age);
  }
  handle(Entered{}, now);
}

void Session::resume_handshake(ParkedFrames parked, TimePoint began, TimePoint now) {
  const bool accept_sent = parked.accept_sent, declined = parked.declined;
  std::unique_ptr<FramedRelay> framed = resume_frames(resources_, std::move(parked), began);
  resources_.report.carried(Transport::kShort);
  resources_.report.setup_began(resources_.outbound() ? "clc_accept" : "clc_proposal", now);
  if (resources_.outbound())
    stage_ = make_stage<OutboundHandshake>(
        resources_, std::move(framed),
        declined ? OutboundHandshake::Behind::kDecline : OutboundHandshake::Behind::kProposal);
  else if (accept_sent)
    stage_ = make_stage<InboundHandshake>(resources_, std::move(framed),
                                          InboundHandshake::BehindAccept{});
  else
    stage_ = make_stage<InboundHandshake>(resources_, std::move(framed));
}

void Session::hurry(TimePoint now) {
  if (!parkable(true)) handle(ParkWanted{}, now);
}

std::optional<ParkedConnection> Session::park(TimePoint now) {
  if (!stage_) return std::nullopt;
  if (!parkable(true)) {
    LogEvent(LogLevel::kDebug, "relay.session", "unsettled")
        .field("conn", resources_.report.id())
        .field("phase", negotiating() ? resources_.report.phase() : "relay")
        .field("group", smc() != nullptr ? smc()->group().id() : "-");
    return std::nullopt;
  }
  ParkedConnection parked = describe(now);
  parked.mode = stage_.park();
  const bool dialled = !std::holds_alternative<ParkedUndialled>(parked.mode);
  if (stage_.framed() != nullptr) resources_.report.carried_no_longer(Transport::kShort);
  leave_stage(now);
  parked.app = std::move(resources_.app);
  if (dialled) parked.net = std::move(resources_.net);
  for (event::Stream* const stream : {parked.app.get(), parked.net.get()})
    if (stream != nullptr) stream->set_handler(nullptr);
  // A stream that is still being dialled is no connection yet.
  if (resources_.net) resources_.net->reset_on_close();
  resources_.net.reset();
  resources_.services.host.retire(*this);
  return parked;
}

ParkedConnection Session::describe(TimePoint now) const {
  ParkedConnection described;
  described.direction = resources_.direction;
  described.destination = resources_.destination;
  described.arrival = resources_.arrival;
  resources_.report.park(described, now);
  described.client_slot = resources_.kept_slot;
  if (resources_.client_slot) described.client_slot = resources_.client_slot.slot();
  return described;
}

void Session::handle(const Event& event, TimePoint now) { apply(stage_.handle(event, now), now); }

void Session::handle_ready(event::Stream& stream) {
  if (SmcRelay* const relay = stage_.smc(); relay != nullptr && &stream == resources_.app.get())
    relay->app_changed();
  mark_ready();
}

void Session::shut_down(const char* why) {
  const TimePoint now = resources_.now();
  handle(WorkerEnds{}, now);
  end(why, now);
}

void Session::apply(StageResult result, TimePoint now) {
  for (;;) {
    if (std::holds_alternative<Stay>(result)) return;
    if (const End* const how = std::get_if<End>(&result)) return end(how->reset_why, now);
    if (auto* const stage = std::get_if<UseStage>(&result))
      result = enter(std::move(stage->next), now);
    else if (std::holds_alternative<DialFirst>(result))
      result = enter(make_stage<InboundDial>(resources_, stage_.release<InboundHandshake>()), now);
    else if (auto* const smc = std::get_if<UseSmc>(&result))
      result = enter_smc(std::move(*smc), now);
    else
      result = enter_tcp(std::move(std::get<UseTcp>(result)), now);
  }
}

void Session::set_stage(Stage next) {
  resources_.deadlines.end_stage();
  stage_ = std::move(next);
}

StageResult Session::enter(Stage next, TimePoint now) {
  set_stage(std::move(next));
  return stage_.handle(Entered{}, now);
}

StageResult Session::enter_smc(UseSmc from, TimePoint now) {
  Destinations* const destinations = resources_.services.destinations;
  if (destinations != nullptr && resources_.redirected())
    destinations->led_to_smc(resources_.destination, now);
  resources_.report.smc_chosen(resources_.peer(), from.membership.group().id(), now);
  if (from.framed) resources_.report.carried_no_longer(Transport::kShort);
  set_stage(make_stage<SmcStage>(resources_, std::move(from)));
  resources_.report.setup_ended();
  return stage_.handle(Entered{}, now);
}

void Session::learn(const FallbackCause& cause, TimePoint now) {
  Destinations* const destinations = resources_.services.destinations;
  if (destinations == nullptr)
    resources_.note("no connection goes past this proxy: fairleadctl destinations says why");
  else if (destinations->led_to_tcp(resources_.destination, cause.side, cause.reason, now))
    resources_.note("for a while, connections to this destination go there directly");
}

StageResult Session::enter_tcp(UseTcp from, TimePoint now) {
  SMC_ASSERT(resources_.app != nullptr && resources_.net != nullptr);
  SessionServices& services = resources_.services;
  const bool refused = resources_.smc_required();
  if (resources_.redirected() && !refused) learn(from.cause, now);
  resources_.report.tcp_chosen(from, *resources_.net, resources_.peer(), now);
  if (refused) {
    services.stats.refused[RefusedFor::kDenied].add();
    if (from.framed)
      resources_.report.short_ended(resources_.peer(), SessionReport::ShortEnd::kInHandshake, now);
    return End{"fallback is denied by configuration"};
  }
  resources_.report.carried(Transport::kTcp);
  if (from.framed) resources_.report.carried_no_longer(Transport::kShort);
  set_stage(make_stage<TcpStage>(resources_, from));
  resources_.report.setup_ended();
  return stage_.handle(Entered{}, now);
}

void Session::end(const char* reset_why, TimePoint now) {
  if (!stage_) return;
  if (reset_why != nullptr) {
    LogEvent(LogLevel::kDebug, "relay.session", "abandoned")
        .field("conn", resources_.report.id())
        .field("why", reset_why);
    if (resources_.app) resources_.app->reset_on_close();
    if (resources_.net) resources_.net->reset_on_close();
  }
  if (const FramedRelay* const framed = stage_.framed()) {
    resources_.report.short_ended(resources_.peer(), short_end(framed->deferral()), now);
  }
  resources_.report.ended(now);
  leave_stage(now);
  resources_.app.reset();
  resources_.client_slot.release();
  resources_.net.reset();
  resources_.services.host.retire(*this);
}

SessionReport::ShortEnd Session::short_end(const smc::Deferral& frames) const {
  if (negotiating() || frames.handed_over()) return SessionReport::ShortEnd::kInHandshake;
  const bool silent = frames.bytes_received() == 0 && !frames.peer_ended();
  return resources_.outbound() && silent && resources_.net->take_error() == ECONNRESET
             ? SessionReport::ShortEnd::kRefusedByPeer
             : SessionReport::ShortEnd::kBeforeEarned;
}

void Session::leave_stage(TimePoint now) {
  stage_.leave(now);
  resources_.services.groups.stop_waiting(*this);
  stage_ = {};
  resources_.report.setup_ended();
  resources_.deadlines.clear();
}

ConnectionRow Session::row(TimePoint now) const {
  const bool in_frames = stage_.framed() != nullptr;
  const SmcRelay* const relay = smc();
  const bool in_smc = relay != nullptr && !negotiating();
  ConnectionRow row = resources_.report.row(in_frames ? Transport::kShort
                                            : in_smc  ? Transport::kSmcr
                                                      : Transport::kTcp,
                                            now);
  const std::string destination = to_string(resources_.destination);
  if (resources_.app)
    row.app = resources_.outbound() ? to_string(resources_.app->peer_address()) : destination;
  if (resources_.net) row.peer = to_string(resources_.peer());
  if (relay == nullptr) return row;
  if (in_smc) row.state = smc::to_string(relay->connection().closing().state());
  row.group = relay->group().id();
  if (const auto& link = relay->group().protocol().links()[relay->link()])
    row.link = link->number().value;
  row.local_token = relay->connection().local_token().value;
  row.peer_token = relay->connection().peer_token().value;
  row.rmb_bytes = relay->connection().rx().size_bytes();
  row.peer_rmb_bytes = relay->connection().tx().element().size_bytes;
  return row;
}

}  // namespace fairlead::relay
