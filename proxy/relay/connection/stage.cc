#include "relay/connection/stage.h"

#include <concepts>

#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"
#include "relay/connection/smc_stage.h"
#include "relay/connection/tcp_stage.h"

namespace fairlead::relay {
namespace {

template <class One, class Happened>
concept ActsOn = requires(One& stage, const Happened& event, TimePoint now) {
  { stage.handle(event, now) } -> std::same_as<StageResult>;
};

// Each event is either acted on or ignored, and the stage says which.
template <class One, class Happened>
constexpr bool kDecided = ActsOn<One, Happened> != One::Ignores::template kHas<Happened>;

template <class One, class... All>
constexpr StageRow row_of(const std::variant<All...>*) {
  static_assert((kDecided<One, All> && ...), "a stage acts on each event, or lists it in Ignores");
  return {One::kName, {ActsOn<One, All>...}};
}

template <class... All>
constexpr std::array<StageRow, kStages> rows_of(
    const std::variant<std::monostate, StagePtr<All>...>*) {
  return {row_of<All>(static_cast<const Event*>(nullptr))...};
}
constexpr std::array<StageRow, kStages> kRows = rows_of(static_cast<const Stage::Any*>(nullptr));

// `ask` applied to the current stage; `otherwise` if there is none, or `ask` does not apply to it.
template <class Answer, class Ask>
Answer ask_stage(const Stage::Any& any, Answer otherwise, Ask ask) {
  return std::visit(
      [&](const auto& stage) -> Answer {
        if constexpr (requires { ask(*stage); })
          return ask(*stage);
        else
          return otherwise;
      },
      any);
}

}  // namespace

template <class One>
void DeleteStage::operator()(One* stage) const {
  delete stage;
}
template void DeleteStage::operator()(OutboundDial*) const;
template void DeleteStage::operator()(InboundDial*) const;
template void DeleteStage::operator()(FramesStage*) const;
template void DeleteStage::operator()(OutboundHandshake*) const;
template void DeleteStage::operator()(InboundHandshake*) const;
template void DeleteStage::operator()(SmcStage*) const;
template void DeleteStage::operator()(TcpStage*) const;

StageResult Stage::handle(const Event& event, TimePoint now) {
  return std::visit(
      [now](const auto& stage, const auto& happened) -> StageResult {
        if constexpr (requires { stage->handle(happened, now); })
          return stage->handle(happened, now);
        else
          return Stay{};
      },
      any_, event);
}

bool Stage::parkable(bool at_last) const {
  return ask_stage(any_, false, [at_last](auto& stage) -> decltype(stage.parkable(at_last)) {
    return stage.parkable(at_last);
  });
}

ParkedMode Stage::park() {
  return ask_stage(any_, ParkedMode(ParkedUndialled{}),
                   [](auto& stage) -> decltype(stage.park()) { return stage.park(); });
}

void Stage::leave(TimePoint now) {
  (void)ask_stage(any_, 0, [now](auto& stage) -> decltype(stage.leave(now), 0) {
    stage.leave(now);
    return 0;
  });
}

SmcRelay* Stage::smc() const {
  return ask_stage(any_, static_cast<SmcRelay*>(nullptr),
                   [](auto& stage) -> decltype(stage.smc()) { return stage.smc(); });
}

FramedRelay* Stage::framed() const {
  return ask_stage(any_, static_cast<FramedRelay*>(nullptr),
                   [](auto& stage) -> decltype(stage.framed()) { return stage.framed(); });
}

bool Stage::uses(const DeviceSlot& slot) const {
  return ask_stage(any_, false,
                   [&slot](auto& stage) -> decltype(stage.uses(slot)) { return stage.uses(slot); });
}

bool Stage::try_read() {
  return ask_stage(any_, false,
                   [](auto& stage) -> decltype(stage.try_read()) { return stage.try_read(); });
}

std::array<StageRow, kStages> stage_rows() { return kRows; }

}  // namespace fairlead::relay
