#include "relay/worker/admission.h"

#include "base/log.h"

namespace fairlead::relay {

bool Admission::has_room(Direction direction) const {
  const std::size_t max = limits_.connections_max;
  if (connection_count() >= max) return false;
  const std::size_t inbound = connections_[static_cast<std::size_t>(Direction::kInbound)];
  return direction == Direction::kOutbound || inbound + limits_.kept_for_outbound < max;
}

void Admission::note_refusal(const event::Stream& accepted, Refusal why) {
  struct Text {
    const char* reason;
    const char* hint;
  };
  static constexpr std::array<Text, kRefusals> kTexts = {{
      {"connection_limit", "raise limits.connections"},
      {"memory", "raise memory.limit"},
      {"descriptors", "raise the descriptor limit (nofile), or lower limits.connections"},
  }};
  stats_.refused[RefusedFor::kLimit].add();
  if (why == Refusal::kMemory) stats_.refused_memory.add();
  if (why == Refusal::kDescriptors) stats_.refused_descriptors.add();
  const auto index = static_cast<std::size_t>(why);
  if (refused_[index]++ % kRefusalsPerLine != 0) return;
  lines_.write(LogLevel::kWarn, "relay.worker", "refused", clock_.now(), [&](LogEvent& line) {
    line.field("reason", kTexts[index].reason)
        .field("connections", std::uint64_t{connection_count()});
    if (why == Refusal::kMemory)
      line.field("memory_left_bytes", std::uint64_t{budget_.left_bytes()});
    line.field("peer", to_string(accepted.peer_address())).field("hint", kTexts[index].hint);
  });
}

bool Admission::begin_handshake(const std::optional<SocketAddress>& client) {
  if (handshakes_ >= limits_.handshakes_max) return false;
  if (client) {
    if (handshakes_of_.count(*client) >= limits_.handshakes_max - handshakes_) return false;
    handshakes_of_.add(*client);
  }
  ++handshakes_;
  return true;
}

void Admission::end_handshake(const std::optional<SocketAddress>& client) {
  --handshakes_;
  if (client) handshakes_of_.remove(*client);
}

}  // namespace fairlead::relay
