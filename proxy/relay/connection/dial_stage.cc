#include "relay/connection/dial_stage.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"

namespace fairlead::relay {
namespace {

bool only_withheld(const DeviceRegistry& devices, const Place& place) {
  const bool any = std::any_of(devices.slots().begin(), devices.slots().end(),
                               [&](const auto& slot) { return slot->withheld(place); });
  return any && devices.offer_towards(place).slot == nullptr;
}

StageResult dial_failed(SessionResources& session, int error) {
  SessionServices& services = session.services;
  if (session.redirected()) {
    services.network.refuse_application(*session.app, error);
    if (services.destinations != nullptr)
      services.destinations->failed(session.destination, session.now());
  }
  if (error == EMFILE || error == ENFILE) {
    services.admission.note_refusal(session.outbound() ? *session.app : *session.net,
                                    Admission::Refusal::kDescriptors);
    return End{"descriptors are used up"};
  }
  services.lines.write(LogLevel::kInfo, "relay.session", "dial_failed", session.now(),
                       [&](LogEvent& line) {
                         line.field("conn", session.report.id())
                             .field("direction", to_string(session.direction))
                             .field("to", to_string(session.destination))
                             .field("what", to_string(system_error("connect", error)));
                       });
  return End{"the destination cannot be reached"};
}

}  // namespace

OutboundDial::OutboundDial(SessionResources& session, HandshakePermit permit,
                           std::optional<FallbackCause> cause)
    : session_(session), permit_(std::move(permit)), cause_(std::move(cause)) {}

StageResult OutboundDial::handle(Entered, TimePoint now) {
  if (cause_) return dial(false, now);
  const config::Smc& smc = session_.services.config.smc;
  assumed_ = config::assumed(smc, session_.destination, session_.destination.port());
  if (const std::optional<FallbackReason> reason = obstacle()) {
    cause_ = FallbackCause{.reason = *reason};
    session_.note("the connection is to stay TCP");
  } else if (!permit_.acquire(session_.destination)) {
    session_.note("waiting: the peer has many handshakes in hand");
    session_.report.set_phase("turn");
    session_.deadlines.set(DeadlineKind::kPermit, now + smc.handshake_timeout);
    return Stay{};
  }
  return dial(!cause_ && !assumed_, now);
}

std::optional<FallbackReason> OutboundDial::obstacle() {
  SessionServices& services = session_.services;
  const config::Smc& smc = services.config.smc;
  if (!smc.enabled) return FallbackReason::kDisabled;
  if (config::excluded(smc, session_.destination, session_.destination.port()))
    return FallbackReason::kPolicyExcluded;
  if (services.admission.draining()) return FallbackReason::kDraining;
  if (!services.devices.any_in_network()) return services.devices.no_device_reason();
  if (!assumed_ && !services.network.option_available()) return FallbackReason::kNoOptionProgram;
  if (!permit_.count()) return FallbackReason::kConnectionLimit;
  return std::nullopt;
}

StageResult OutboundDial::handle(PermitGranted, TimePoint) {
  permit_.granted();
  session_.deadlines.cancel(DeadlineKind::kPermit);
  session_.mark_ready();
  return Stay{};
}

StageResult OutboundDial::handle(DeadlineDue due, TimePoint now) {
  if (answering_) return End{"the application did not finish its connect"};
  if (due.kind == DeadlineKind::kDial) return dial_failed(session_, ETIMEDOUT);
  // After the time of a whole handshake in the queue, the connection does not wait for one any
  // more.
  permit_.release();
  session_.note(kNoPermitStep);
  cause_ = kNoPermit;
  return dial(false, now);
}

StageResult OutboundDial::dial(bool with_option, TimePoint now) {
  SessionServices& services = session_.services;
  session_.report.set_phase("dial");
  const SocketAddress client = session_.app->peer_address();
  const bpf::Announced announce = !with_option ? bpf::Announced::kNothing
                                  : config::defers(services.config, session_.destination)
                                      ? bpf::Announced::kFrames
                                      : bpf::Announced::kSmc;
  Result<std::unique_ptr<event::Stream>> net = services.network.dial_peer(
      session_.destination, announce, session_.redirected() ? &client : nullptr,
      session_.memory.dialled_level());
  if (!net) return dial_failed(session_, net.error().system);
  session_.net = std::move(*net);
  session_.net->set_handler(&session_.host);
  session_.deadlines.set(DeadlineKind::kDial, now + services.config.limits.dial_timeout);
  return Stay{};
}

StageResult OutboundDial::handle(Ready, TimePoint now) {
  if (answering_) {
    if (!session_.services.network.application_connected(*session_.app)) return Stay{};
    answering_ = false;
    session_.deadlines.cancel(DeadlineKind::kDial);
    return choose(now);
  }
  if (!session_.net) return permit_.held() ? dial(!assumed_, now) : StageResult{Stay{}};
  if (!session_.net->connected()) return Stay{};
  if (const int error = session_.net->take_error(); error != 0) return dial_failed(session_, error);
  return connected(now);
}

StageResult OutboundDial::connected(TimePoint now) {
  SessionServices& services = session_.services;
  session_.deadlines.cancel(DeadlineKind::kDial);
  if (!session_.redirected()) return choose(now);
  if (services.destinations != nullptr) services.destinations->answered(session_.destination, now);
  if (services.network.answer_application(*session_.app)) return choose(now);
  answering_ = true;
  session_.deadlines.set(DeadlineKind::kDial, now + services.config.limits.dial_timeout);
  return Stay{};
}

StageResult OutboundDial::choose(TimePoint now) {
  SessionServices& services = session_.services;
  if (!session_.memory.bound(*session_.net, SocketMemory::Leg::kNet))
    return session_.refuse_for_memory();
  const auto handshake = [&](std::optional<FallbackCause> declined_for) {
    return UseStage{
        make_stage<OutboundHandshake>(session_, std::move(permit_), nullptr, declined_for)};
  };
  if (cause_) {
    // A program of the node side writes the option without being asked. A peer that answered it
    // awaits CLC, and would take the application's bytes for that.
    if (services.network.option_answered(*session_.net) == bpf::Announced::kNothing)
      return UseTcp{.cause = *cause_};
    session_.note("the SYN carried the SMC option all the same: declined");
    return handshake(cause_);
  }
  const bpf::Announced answered =
      assumed_ ? bpf::Announced::kSmc : services.network.option_answered(*session_.net);
  if (answered == bpf::Announced::kNothing) {
    session_.note("the SYN/ACK carried no SMC option");
    return UseTcp{.cause = {.reason = services.announcing.known(session_.destination)
                                          ? FallbackReason::kOptionWithheld
                                          : FallbackReason::kPeerNotInjected}};
  }
  if (!assumed_) services.announcing.note(session_.destination);
  session_.note(assumed_ ? "the peer is assumed to speak SMC"
                         : "the SYN/ACK carried the SMC option");
  // If the path is encrypted and no other device leads there, SMC-R cannot be earned.
  if (answered < bpf::Announced::kFrames ||
      only_withheld(services.devices, Place(*session_.net, std::nullopt)))
    return handshake(std::nullopt);
  const auto windows = answered == bpf::Announced::kFramesWithWindows
                           ? smc::Deferral::Windows::kKnown
                           : smc::Deferral::Windows::kNone;
  if (session_.memory.begin_frames(smc::Deferral::first_window_bytes(windows)))
    return UseStage{make_stage<FramesStage>(session_, windows, now)};
  session_.note("no memory for what frames may carry");
  return handshake(FallbackCause{.reason = FallbackReason::kMemory, .detail = kBudgetSpent});
}

InboundDial::InboundDial(SessionResources& session, HandshakePermit permit, Next next)
    : session_(session), permit_(std::move(permit)), next_(std::move(next)) {}

InboundDial::InboundDial(SessionResources& session)
    : InboundDial(session, HandshakePermit(session.services, session.number), Undecided{}) {}

InboundDial::InboundDial(SessionResources& session, StagePtr<InboundHandshake> handshake)
    : InboundDial(session, HandshakePermit(session.services, session.number),
                  Next(std::move(handshake))) {}

InboundDial::InboundDial(SessionResources& session, HandshakePermit permit, UseTcp tcp)
    : InboundDial(session, std::move(permit), Next(std::move(tcp))) {}

InboundDial::InboundDial(SessionResources& session, std::vector<std::byte> frames)
    : InboundDial(session, HandshakePermit(session.services, session.number),
                  FirstFrames{std::move(frames)}) {}

StageResult InboundDial::handle(Entered, TimePoint now) {
  return std::holds_alternative<Undecided>(next_) ? choose(now) : dial(now);
}

StageResult InboundDial::choose(TimePoint now) {
  SessionServices& services = session_.services;
  const config::Smc& smc = services.config.smc;
  const SocketAddress peer = session_.net->peer_address();
  const std::uint16_t port = session_.destination.port();
  const bpf::Announced announced = services.network.option_requested(*session_.net);
  const bool requested = announced != bpf::Announced::kNothing;
  const bool assumed = !requested && smc.enabled && config::assumed(smc, peer, port);
  if (!requested && !assumed) {
    next_ = UseTcp{.cause = {.reason = !smc.enabled ? FallbackReason::kDisabled
                                       : config::excluded(smc, peer, port)
                                           ? FallbackReason::kPolicyExcluded
                                       : !services.network.option_available()
                                           ? FallbackReason::kNoOptionProgram
                                           : FallbackReason::kPeerNotInjected}};
    session_.note("the SYN carried no SMC option");
    return dial(now);
  }
  session_.note(requested ? "the SYN carried the SMC option" : "the peer is assumed to speak SMC");
  // If SMC-R is required, frames are neither offered nor accepted: nothing would end them.
  if (announced != bpf::Announced::kFrames || session_.smc_required())
    return UseStage{
        make_stage<InboundHandshake>(session_, InboundHandshake::First::kProposal, assumed)};
  return UseStage{
      make_stage<InboundHandshake>(session_, InboundHandshake::First::kFramesOrProposal, false)};
}

StageResult InboundDial::dial(TimePoint now) {
  Result<ApplicationLeg> leg = session_.services.network.dial_application(
      session_.destination, session_.net->peer_address(), session_.memory.dialled_level());
  if (!leg) return dial_failed(session_, leg.error().system);
  session_.app = std::move(leg->stream);
  session_.client_slot = std::move(leg->slot);
  session_.report.set_client_address(leg->client_address);
  session_.app->set_handler(&session_.host);
  session_.deadlines.set(DeadlineKind::kDial, now + session_.services.config.limits.dial_timeout);
  if (auto* const first = std::get_if<FirstFrames>(&next_)) offer(std::move(first->bytes), now);
  return handle(Ready{}, now);
}

// The application is usually on this host, so the connection is presumed without waiting for its
// event.
void InboundDial::offer(std::vector<std::byte> first_frames, TimePoint now) {
  session_.app->presume_connected();
  auto frames = make_stage<FramesStage>(session_, windows_in(first_frames), now);
  frames->take(first_frames);
  next_ = std::move(frames);
}

StageResult InboundDial::handle(Ready, TimePoint now) {
  // What a client sent before its reset is still for the server, and TCP shows a server even a
  // connection that was reset at once. Only a handshake needs the peer alive.
  const bool negotiates = std::holds_alternative<StagePtr<InboundHandshake>>(next_);
  if (negotiates && session_.net->hung_up() && session_.net->take_error() != 0)
    return End{"reset while dialling"};
  if (const int error = session_.app->take_error(); error != 0) return dial_failed(session_, error);
  return session_.app->connected() ? connected(now) : Stay{};
}

StageResult InboundDial::connected(TimePoint) {
  session_.deadlines.cancel(DeadlineKind::kDial);
  if (!session_.memory.bound(*session_.app, SocketMemory::Leg::kApp))
    return session_.refuse_for_memory();
  if (auto* const tcp = std::get_if<UseTcp>(&next_)) return std::move(*tcp);
  if (auto* const handshake = std::get_if<StagePtr<InboundHandshake>>(&next_))
    return UseStage{std::move(*handshake)};
  return UseStage{std::move(std::get<StagePtr<FramesStage>>(next_))};
}

StageResult InboundDial::handle(DeadlineDue, TimePoint) { return dial_failed(session_, ETIMEDOUT); }

bool InboundDial::uses(const DeviceSlot& slot) const {
  const auto* const handshake = std::get_if<StagePtr<InboundHandshake>>(&next_);
  return handshake != nullptr && (*handshake)->uses(slot);
}

}  // namespace fairlead::relay
