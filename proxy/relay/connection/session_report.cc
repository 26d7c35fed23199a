#include "relay/connection/session_report.h"

#include <array>

#include "base/log.h"
#include "relay/connection/parked_connection.h"

namespace fairlead::relay {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

SessionReport::SessionReport(SessionServices& services, std::uint64_t session, Direction direction,
                             TimePoint now)
    : services_(services), session_(session), direction_(direction), began_(now) {
  setup_began("accept", now);
}

void SessionReport::setup_began(const char* phase, TimePoint now) {
  setup_ = std::make_unique<SetUp>();
  setup_->began = now;
  setup_->phase = phase;
}

void SessionReport::note(const char* step) {
  if (setup_) setup_->steps.push_back(step);
}

void SessionReport::set_phase(const char* phase) {
  if (setup_) setup_->phase = phase;
}

void SessionReport::set_client_address(ClientAddress shown) {
  client_address_ = shown;
  services_.stats.client_address[shown].add();
  note(client_address_info(shown).step);
}

void SessionReport::park(ParkedConnection& into, TimePoint now) const {
  into.age = now - began_;
  into.tx = tx_;
  into.rx = rx_;
  into.framed_tx = framed_tx_;
  into.reason = reason_;
  into.client_address = client_address_;
}

// Bytes that the previous process has counted are not counted again.
void SessionReport::resume(const ParkedConnection& parked) {
  tx_ = parked.tx;
  rx_ = parked.rx;
  framed_tx_ = parked.framed_tx;
  reason_ = parked.reason;
  client_address_ = parked.client_address;
  setup_ended();
}

void SessionReport::carried(Transport transport) {
  TrafficStats& traffic = services_.stats.traffic[direction_][transport];
  // Most connections that begin in frames become something else.
  if (transport != Transport::kShort) traffic.connections_total.add();
  traffic.connections_active.add();
}

void SessionReport::carried_no_longer(Transport transport) {
  services_.stats.traffic[direction_][transport].connections_active.sub();
}

void SessionReport::record(Decision decision, const SocketAddress& peer, TimePoint since,
                           TimePoint now) {
  decision.session = session_;
  decision.time = services_.network.wall_now();
  decision.direction = direction_;
  decision.peer = peer;
  decision.elapsed_seconds = seconds(now - since);
  services_.decisions.add(std::move(decision));
}

void SessionReport::smc_chosen(const SocketAddress& peer, const std::string& group, TimePoint now) {
  carried(Transport::kSmcr);
  services_.stats.handshake_smcr.observe(seconds(now - setup_->began));
  note("carried over SMC-R");
  services_.fallbacks.report_success(direction_, peer, id(), now);
  LogEvent(LogLevel::kDebug, "relay.session", "smcr").field("conn", id()).field("group", group);
  Decision decision;
  decision.transport = Transport::kSmcr;
  decision.steps = std::move(setup_->steps);
  record(std::move(decision), peer, setup_->began, now);
}

void SessionReport::tcp_chosen(const UseTcp& why, const event::Stream& net,
                               const SocketAddress& peer, TimePoint now) {
  const FallbackCause& cause = why.cause;
  reason_ = cause.reason;
  services_.stats.fallback[direction_][cause.side][cause.reason].add();
  services_.stats.handshake_fallback.observe(seconds(now - setup_->began));
  FallbackEvent event;
  event.direction = direction_;
  event.side = cause.side;
  event.reason = cause.reason;
  event.peer_code = cause.peer_code;
  event.local = net.local_address();
  event.peer = peer;
  event.phase = setup_->phase;
  event.elapsed_seconds = seconds(now - setup_->began);
  event.connection = id();
  event.pnet = services_.config.pnet.id.empty() ? cause.pnet : services_.config.pnet.id;
  event.rnic = cause.device;
  event.detail = cause.detail;
  services_.fallbacks.report(event, now);
  Decision decision;
  decision.transport = Transport::kTcp;
  decision.side = cause.side;
  // Costs a system call, so it is only recorded for fallbacks.
  decision.local = event.local;
  decision.reason = cause.reason;
  decision.peer_code = cause.peer_code;
  decision.steps = std::move(setup_->steps);
  record(std::move(decision), peer, setup_->began, now);
}

void SessionReport::short_ended(const SocketAddress& peer, ShortEnd how, TimePoint now) {
  static constexpr std::array<const char*, 3> kSteps = {
      "it ended before it had earned SMC-R", "it ended during its handshake",
      "the peer reset it before it said anything: see the peer's log for the reason"};
  carried_no_longer(Transport::kShort);
  services_.stats.traffic[direction_][Transport::kShort].connections_total.add();
  Decision decision;
  decision.transport = Transport::kShort;
  decision.steps = {"the connection began in frames", kSteps[static_cast<std::size_t>(how)]};
  record(std::move(decision), peer, began_, now);
}

void SessionReport::count(Transport transport, std::uint64_t tx, std::uint64_t rx, TimePoint now) {
  TrafficStats& traffic = services_.stats.traffic[direction_][transport];
  const bool outbound = direction_ == Direction::kOutbound;
  const bool sent = tx > tx_, came = rx > rx_;
  if (const auto first = answers_.note(outbound ? sent : came, outbound ? came : sent, now))
    services_.stats.first_answer[direction_].observe(seconds(*first));
  traffic.tx_bytes.add(tx - tx_);
  traffic.rx_bytes.add(rx - rx_);
  tx_ = tx;
  rx_ = rx;
}

void SessionReport::ended(TimePoint now) {
  if (const auto longest = answers_.longest(now))
    services_.stats.longest_wait[direction_].observe(seconds(*longest));
}

void SessionReport::frames_refused(const SocketAddress& peer, const char* detail) {
  services_.stats.refused[RefusedFor::kHandshake].add();
  services_.lines.write(LogLevel::kWarn, "relay.session", "frames_refused", services_.network.now(),
                        [&](LogEvent& line) {
                          line.field("conn", id())
                              .field("peer", to_string(peer))
                              .field("phase", phase())
                              .field("detail", detail);
                        });
}

void SessionReport::peer_vanished(const SocketAddress& peer, const std::string& what) {
  Counter& count = services_.stats.peer_timeouts;
  count.add();
  // Paced, because all connections to a host end at once.
  if (count.get() % kRefusalsPerLine != 1) return;
  services_.lines.write(LogLevel::kWarn, "relay.session", "peer_vanished", services_.network.now(),
                        [&](LogEvent& line) {
                          line.field("conn", id())
                              .field("peer", to_string(peer))
                              .field("what", what)
                              .field("total", count.get());
                        });
}

ConnectionRow SessionReport::row(Transport transport, TimePoint now) const {
  ConnectionRow row;
  row.id = id();
  row.worker = 0;
  row.direction = direction_;
  row.transport = transport;
  row.state = setup_ ? "handshake" : "active";
  if (reason_) {
    row.reason = fallback_info(*reason_).name;
    row.reason_code = fallback_info(*reason_).code;
  }
  if (client_address_) row.client_address = client_address_info(*client_address_).name;
  row.age_seconds = seconds(now - began_);
  row.tx_bytes = tx_;
  row.rx_bytes = rx_;
  return row;
}

}  // namespace fairlead::relay
