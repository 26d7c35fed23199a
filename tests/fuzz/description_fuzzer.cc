// What a keeper gives back: the description of parked connections. The input is the number of
// descriptors that come with it, in one byte, and then the description. Properties: an error names
// what is wrong; an accepted description holds no more bytes than the input, its frames can be
// resumed, and it is the same after encoding and decoding.
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/reached.h"
#include "parking/description.h"

namespace {

using namespace fairlead;
using namespace fairlead::parking;

void check_mode(const relay::ParkedConnection& connection) {
  const auto* const frames = std::get_if<relay::ParkedFrames>(&connection.mode);
  if (frames == nullptr) {
    const bool tcp = std::holds_alternative<relay::ParkedTcp>(connection.mode);
    return fuzz::reached(tcp ? "accepted: TCP" : "accepted: undialled");
  }
  using Role = smc::Deferral::Role;
  const Role role = connection.direction == Direction::kOutbound ? Role::kClient : Role::kServer;
  SMC_ASSERT(smc::Deferral::resume(role, {}, {}, frames->rules).has_value());
  if (!frames->within_handshake()) return fuzz::reached("accepted: frames");
  SMC_ASSERT(role == Role::kClient || frames->rules.received.handed_over);
  fuzz::reached(frames->accept_sent ? "accepted: behind an Accept"
                                    : "accepted: within a handshake");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  auto parked = decode(bytes, std::vector<FileDescriptor>(data[0]));
  if (!parked) {
    fuzz::check_printable(parked.error().what);
    fuzz::reached_refusal(parked.error().what);
    return 0;
  }
  std::size_t waiting = 0;
  for (const relay::ParkedSockets& sockets : parked->connections) {
    check_mode(sockets.state);
    waiting += relay::waiting_bytes(sockets.state.mode);
  }
  SMC_ASSERT(waiting <= bytes.size(), waiting, bytes.size());
  if (parked->refused) {
    fuzz::check_printable(parked->refused->what);
    fuzz::reached_refusal(parked->refused->what);
  }
  if (!parked->listeners.empty()) fuzz::reached("accepted: listener");
  const std::size_t connections = parked->connections.size();
  EncodedDescription once = encode(std::move(*parked));
  SMC_ASSERT(once.descriptors.size() <= data[0], once.descriptors.size());
  auto again = decode(once.bytes, std::move(once.descriptors));
  SMC_ASSERT(again.has_value() && again->connections.size() == connections && !again->refused);
  SMC_ASSERT(encode(std::move(*again)).bytes == once.bytes);
  return 0;
}
