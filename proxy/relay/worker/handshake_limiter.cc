#include "relay/worker/handshake_limiter.h"

#include "base/assert.h"

namespace fairlead::relay {

bool HandshakeLimiter::take(const SocketAddress& peer, std::uint64_t session) {
  Line& line = peers_[peer.with_port(0)];
  if (line.in_hand == per_peer_max_) {
    line.waiting.push_back(session);
    return false;
  }
  ++line.in_hand;
  return true;
}

std::optional<std::uint64_t> HandshakeLimiter::give_back(const SocketAddress& peer) {
  const auto found = peers_.find(peer.with_port(0));
  SMC_ASSERT(found != peers_.end());
  Line& line = found->second;
  if (!line.waiting.empty()) {
    const std::uint64_t next = line.waiting.front();
    line.waiting.pop_front();
    return next;
  }
  if (--line.in_hand == 0) peers_.erase(found);
  return std::nullopt;
}

void HandshakeLimiter::leave(const SocketAddress& peer, std::uint64_t session) {
  // The peer's entry exists as long as a session waits in it.
  const auto found = peers_.find(peer.with_port(0));
  SMC_ASSERT(found != peers_.end());
  std::erase(found->second.waiting, session);
}

}  // namespace fairlead::relay
