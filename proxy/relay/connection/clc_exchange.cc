#include "relay/connection/clc_exchange.h"

namespace fairlead::relay {

using Kind = event::IoResult::Kind;

ClcExchange::Written ClcExchange::write(event::Stream& net) {
  while (!handshake_->output_empty()) {
    if (!net.writable()) return Written::kBlocked;
    const std::span<const std::byte> bytes = handshake_->output();
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const event::IoResult result = net.write({&piece, 1});
    if (result.kind == Kind::kError) return Written::kReset;
    if (result.kind != Kind::kBytes) return Written::kBlocked;
    handshake_->output_written(result.count);
  }
  return Written::kAll;
}

ClcExchange::Fetched ClcExchange::fetch(event::Stream& net) {
  if (!net.readable()) return Fetched::kNothing;
  std::byte chunk[kHandshakeReadBytes];
  const iovec into{chunk, sizeof chunk};
  const event::IoResult result = net.read({&into, 1});
  if (result.kind == Kind::kWouldBlock) return Fetched::kNothing;
  if (result.kind != Kind::kBytes)
    return result.kind == Kind::kEnd ? Fetched::kEnd : Fetched::kReset;
  unread_.insert(unread_.end(), chunk, chunk + result.count);
  return Fetched::kBytes;
}

void ClcExchange::take(TimePoint now) {
  const std::size_t before = handshake_->unconsumed().size();
  const std::size_t taken = handshake_->handle_bytes(unread_, now);
  if (handshake_->state() != smc::Handshake::State::kFailed) {
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(taken));
    return;
  }
  // If the application does not speak CLC, every byte counts.
  const auto earlier = handshake_->unconsumed().first(before);
  unread_.insert(unread_.begin(), earlier.begin(), earlier.end());
}

}  // namespace fairlead::relay
