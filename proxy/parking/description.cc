#include "parking/description.h"

#include <algorithm>
#include <utility>

#include "base/fallback.h"
#include "description.pb.h"

namespace fairlead::parking {
namespace {

std::string to_bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> from_bytes(const std::string& bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

void write(const relay::BacklogContent& from, proto::Waiting& to) {
  to.set_data(to_bytes(from.bytes));
  if (from.urgent_at) to.set_urgent_at(*from.urgent_at);
  to.set_written(from.written);
}

Result<relay::BacklogContent> read(const proto::Waiting& from) {
  relay::BacklogContent content{from_bytes(from.data()), std::nullopt, from.written()};
  if (!from.has_urgent_at()) return content;
  if (from.urgent_at() >= content.bytes.size())
    return Error{Errc::kMalformed, "waiting.urgent_at: behind the bytes"};
  content.urgent_at = from.urgent_at();
  return content;
}

void write(const relay::ParkedTcpHalf& from, proto::TcpHalf& to) {
  write(from.waiting, *to.mutable_waiting());
  to.set_undecided(to_bytes(from.undecided));
  to.set_late_decline(from.late_decline);
  to.set_late_return(from.late_return);
  to.set_end_read(from.end_read);
  to.set_end_passed_on(from.end_passed_on);
}

Result<relay::ParkedTcpHalf> read(const proto::TcpHalf& from) {
  relay::ParkedTcpHalf half;
  half.waiting = SMC_TRY(read(from.waiting()));
  half.undecided = from_bytes(from.undecided());
  half.late_decline = from.late_decline();
  half.late_return = half.late_decline && from.late_return();
  half.end_read = from.end_read();
  half.end_passed_on = from.end_passed_on();
  if (!half.late_decline && !half.undecided.empty())
    return Error{Errc::kMalformed, "tcp.undecided: no Decline is looked for"};
  const bool rest = !half.waiting.bytes.empty() || !half.undecided.empty();
  if (half.end_passed_on && (!half.end_read || rest))
    return Error{Errc::kMalformed, "tcp.end_passed_on: before the end"};
  return half;
}

void write(const smc::Deferral::Half& from, proto::FramesHalf& to) {
  to.set_bytes(from.bytes);
  to.set_ended(from.ended);
  to.set_handed_over(from.handed_over);
}

smc::Deferral::Half read(const proto::FramesHalf& from) {
  return {from.bytes(), from.ended(), from.handed_over()};
}

void write(const relay::ParkedFrames& from, proto::Frames& to) {
  write(from.rules.sent, *to.mutable_sent());
  write(from.rules.received, *to.mutable_received());
  to.set_turns(from.rules.turns);
  to.set_answered(from.rules.answered);
  to.set_body_left(from.rules.body_left);
  to.set_urgent(from.rules.urgent);
  to.set_head(from.rules.head.data(), from.rules.head_bytes);
  write(from.to_net, *to.mutable_to_net());
  write(from.to_app, *to.mutable_to_app());
  to.set_app_bytes(from.app_bytes);
  to.set_preface_due(from.preface_due);
  to.set_behind(to_bytes(from.behind));
  to.set_app_refuses(from.app_refuses);
  to.set_app_finished(from.app_finished);
  to.set_peer_over(from.peer_over);
  to.set_accept_sent(from.accept_sent);
  to.set_peer_lost(from.peer_lost);
  to.set_declined(from.declined);
  if (!from.rules.windows) return;
  to.set_windows(true);
  to.set_sent_max(from.rules.sent_max);
  to.set_received_max(from.rules.received_max);
}

Result<relay::ParkedFrames> read(const proto::Frames& from, bool outbound) {
  relay::ParkedFrames frames;
  frames.rules.sent = read(from.sent());
  frames.rules.received = read(from.received());
  frames.rules.turns = from.turns();
  frames.rules.answered = from.answered();
  frames.rules.body_left = from.body_left();
  frames.rules.urgent = from.urgent();
  if (from.head().size() > frames.rules.head.size())
    return Error{Errc::kMalformed, "frames.head: longer than a header"};
  frames.rules.head_bytes = from.head().size();
  std::copy_n(reinterpret_cast<const std::byte*>(from.head().data()), from.head().size(),
              frames.rules.head.begin());
  if (from.windows()) {
    frames.rules.windows = true;
    frames.rules.sent_max = from.sent_max();
    frames.rules.received_max = from.received_max();
  }
  frames.to_net = SMC_TRY(read(from.to_net()));
  frames.to_app = SMC_TRY(read(from.to_app()));
  frames.app_bytes = from.app_bytes();
  frames.preface_due = from.preface_due();
  frames.behind = from_bytes(from.behind());
  frames.app_refuses = from.app_refuses();
  frames.app_finished = from.app_finished();
  frames.peer_over = from.peer_over();
  if (!frames.behind.empty() && !frames.rules.received.handed_over)
    return Error{Errc::kMalformed, "frames.behind: the peer has not handed over"};
  frames.peer_lost = from.peer_lost();
  frames.accept_sent = from.accept_sent();
  frames.declined = from.declined();
  if (frames.accept_sent && (outbound || !frames.within_handshake()))
    return Error{Errc::kMalformed, "frames.accept_sent: not a server within a handshake"};
  if (frames.declined && !(outbound && frames.within_handshake()))
    return Error{Errc::kMalformed, "frames.declined: not a client within a handshake"};
  using Role = smc::Deferral::Role;
  SMC_TRY(smc::Deferral::resume(outbound ? Role::kClient : Role::kServer, {}, {}, frames.rules));
  return frames;
}

void write(const event::ParkedStream& from, proto::Stream& to) {
  to.set_peer(to_string(from.peer));
  to.set_error(static_cast<std::uint32_t>(from.error));
}

Result<SocketAddress> read_address(const std::string& text) { return SocketAddress::parse(text); }

constexpr std::uint32_t kErrnoMax = 4095;  // MAX_ERRNO of Linux

// The descriptors of a parcel; each can be taken once.
class Descriptors {
 public:
  explicit Descriptors(std::vector<FileDescriptor> all) : all_(std::move(all)) {}
  Result<FileDescriptor> next() {
    if (taken_ == all_.size()) return Error{Errc::kMalformed, "fewer descriptors than described"};
    return std::move(all_[taken_++]);
  }
  bool all_taken() const { return taken_ == all_.size(); }

 private:
  std::vector<FileDescriptor> all_;
  std::size_t taken_ = 0;
};

Result<void> read(const proto::Stream& from, event::ParkedStream& stream) {
  stream.peer = SMC_TRY(read_address(from.peer()));
  if (from.error() > kErrnoMax) return Error{Errc::kMalformed, "stream.error: no errno"};
  stream.error = static_cast<int>(from.error());
  return {};
}

std::optional<ClientAddress> client_address_named(const std::string& name) {
  for (const ClientAddressInfo& info : kClientAddressTable)
    if (info.name == name) return info.value;
  return std::nullopt;
}

std::optional<FallbackReason> reason_named(const std::string& name) {
  const FallbackInfo* const info = find_fallback(name);
  return info == nullptr ? std::nullopt : std::optional(info->reason);
}

void write(const relay::ParkedSockets& from, proto::Connection& to) {
  const relay::ParkedConnection& state = from.state;
  to.set_outbound(state.direction == Direction::kOutbound);
  to.set_destination(to_string(state.destination));
  to.set_redirected(state.arrival == relay::Arrival::kRedirected);
  to.set_age_nanoseconds(static_cast<std::uint64_t>(std::chrono::nanoseconds(state.age).count()));
  to.set_tx_bytes(state.tx);
  to.set_rx_bytes(state.rx);
  to.set_framed_tx_bytes(state.framed_tx);
  if (state.reason) to.set_fallback_reason(std::string(fallback_info(*state.reason).name));
  if (state.client_address)
    to.set_client_address(std::string(client_address_info(*state.client_address).name));
  if (state.client_slot) to.set_client_slot(*state.client_slot);
  if (from.app) write(*from.app, *to.mutable_app());
  if (from.net) write(*from.net, *to.mutable_net());
  if (const auto* const tcp = std::get_if<relay::ParkedTcp>(&state.mode)) {
    write(tcp->towards_net, *to.mutable_tcp()->mutable_towards_net());
    write(tcp->towards_app, *to.mutable_tcp()->mutable_towards_app());
  } else if (const auto* const frames = std::get_if<relay::ParkedFrames>(&state.mode)) {
    write(*frames, *to.mutable_frames());
  } else {
    to.mutable_undialled();
  }
}

// A connection older than any process of a pod would overflow the clock.
constexpr Duration kAgeMax = std::chrono::hours(24 * 365 * 20);

Result<relay::ParkedMode> read_mode(const proto::Connection& from) {
  switch (from.mode_case()) {
    case proto::Connection::kUndialled:
      return relay::ParkedMode(relay::ParkedUndialled{});
    case proto::Connection::kTcp: {
      // Assigned one after the other: an early return from an initialiser would not destroy the
      // parts.
      relay::ParkedTcp tcp;
      tcp.towards_net = SMC_TRY(read(from.tcp().towards_net()));
      tcp.towards_app = SMC_TRY(read(from.tcp().towards_app()));
      return relay::ParkedMode(std::move(tcp));
    }
    case proto::Connection::kFrames: {
      relay::ParkedFrames frames = SMC_TRY(read(from.frames(), from.outbound()));
      return relay::ParkedMode(std::move(frames));
    }
    case proto::Connection::MODE_NOT_SET:
      break;
  }
  return Error{Errc::kUnsupported, "connection.mode: none that is known"};
}

// Fills in the state only; `sockets` has the streams already.
Result<void> read(const proto::Connection& from, relay::ParkedSockets& sockets) {
  relay::ParkedConnection& state = sockets.state;
  state.direction = from.outbound() ? Direction::kOutbound : Direction::kInbound;
  state.destination = SMC_TRY(read_address(from.destination()));
  state.arrival = from.redirected() ? relay::Arrival::kRedirected : relay::Arrival::kAtListener;
  const auto age_max = static_cast<std::uint64_t>(std::chrono::nanoseconds(kAgeMax).count());
  state.age = std::chrono::nanoseconds(std::min(from.age_nanoseconds(), age_max));
  state.tx = from.tx_bytes();
  state.rx = from.rx_bytes();
  state.framed_tx = from.framed_tx_bytes();
  if (!from.fallback_reason().empty()) state.reason = reason_named(from.fallback_reason());
  state.client_address = client_address_named(from.client_address());
  if (from.has_client_slot()) state.client_slot = from.client_slot();
  state.mode = SMC_TRY(read_mode(from));
  if (sockets.app) SMC_TRY(read(from.app(), *sockets.app));
  if (sockets.net) SMC_TRY(read(from.net(), *sockets.net));
  const bool undialled = std::holds_alternative<relay::ParkedUndialled>(state.mode);
  const bool outbound = state.direction == Direction::kOutbound;
  const bool app = sockets.app.has_value(), net = sockets.net.has_value();
  if (undialled ? !(outbound && app && !net) : !(app && net))
    return Error{Errc::kMalformed, "connection: not the streams of its mode"};
  return {};
}

}  // namespace

std::size_t drop_largest(Parked& parked, std::uint64_t bytes_max) {
  std::vector<relay::ParkedSockets>& all = parked.connections;
  std::sort(all.begin(), all.end(), [](const auto& one, const auto& other) {
    return waiting_bytes(one.state.mode) < waiting_bytes(other.state.mode);
  });
  std::uint64_t bytes = parked.listeners.size() * kDescribedBytesMax;
  const auto first = std::find_if(all.begin(), all.end(), [&](const auto& one) {
    bytes += kDescribedBytesMax + waiting_bytes(one.state.mode);
    return bytes > bytes_max;
  });
  const auto dropped = static_cast<std::size_t>(all.end() - first);
  all.erase(first, all.end());
  parked.ended += dropped;
  return dropped;
}

EncodedDescription encode(Parked parked) {
  proto::Description description;
  description.set_version(kDescriptionVersion);
  description.set_proxy_version(parked.proxy_version);
  description.set_parked_nanoseconds(static_cast<std::uint64_t>(
      std::chrono::nanoseconds(parked.parked_at.time_since_epoch()).count()));
  description.set_ended(parked.ended);
  EncodedDescription encoded;
  encoded.ended = parked.ended;
  for (relay::ParkedListener& listener : parked.listeners) {
    description.add_listeners()->set_address(to_string(listener.address));
    encoded.descriptors.push_back(std::move(listener.socket));
  }
  for (relay::ParkedSockets& sockets : parked.connections) {
    write(sockets, *description.add_connections());
    encoded.workers.push_back(sockets.worker);
    if (sockets.app) encoded.descriptors.push_back(std::move(sockets.app->socket));
    if (sockets.net) encoded.descriptors.push_back(std::move(sockets.net->socket));
  }
  encoded.bytes.resize(description.ByteSizeLong());
  (void)description.SerializeToArray(encoded.bytes.data(), static_cast<int>(encoded.bytes.size()));
  return encoded;
}

Result<Parked> decode(std::span<const std::byte> bytes, std::vector<FileDescriptor> descriptors) {
  if (bytes.size() > kDescriptionBytesMax)
    return Error{Errc::kMalformed, "description: longer than is allowed"};
  proto::Description description;
  if (!description.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Error{Errc::kMalformed, "description: no message"};
  if (description.version() == 0 || description.version() > kDescriptionVersion)
    return Error{Errc::kUnsupported, "description.version: of another proxy"};
  if (description.listeners_size() > static_cast<int>(kParkedListenersMax))
    return Error{Errc::kMalformed, "description.listeners: more than are allowed"};
  Descriptors left(std::move(descriptors));
  Parked parked;
  parked.proxy_version = description.proxy_version();
  parked.parked_at = TimePoint(std::chrono::nanoseconds(
      std::min<std::uint64_t>(description.parked_nanoseconds(), INT64_MAX)));
  parked.ended = description.ended();
  for (const proto::Listener& listener : description.listeners()) {
    FileDescriptor socket = SMC_TRY(left.next());
    const SocketAddress address = SMC_TRY(read_address(listener.address()));
    parked.listeners.push_back({address, std::move(socket)});
  }
  for (const proto::Connection& connection : description.connections()) {
    relay::ParkedSockets sockets;
    if (connection.has_app()) sockets.app.emplace().socket = SMC_TRY(left.next());
    if (connection.has_net()) sockets.net.emplace().socket = SMC_TRY(left.next());
    const Result<void> possible = read(connection, sockets);
    if (possible) {
      parked.connections.push_back(std::move(sockets));
      continue;
    }
    ++parked.ended;
    if (!parked.refused) parked.refused = possible.error();
  }
  if (!left.all_taken()) return Error{Errc::kMalformed, "more descriptors than described"};
  return parked;
}

}  // namespace fairlead::parking
