#include "sim/checks.h"

#include <algorithm>

#include "sim/sim_queue_pair.h"
#include "wire/llc.h"

namespace fairlead::sim {
namespace {

// Two dials (5 s each), a handshake (6 s) and a wait for another one, with a stalled worker.
constexpr double kNegotiationSecondsMax = 40;
constexpr std::uint64_t kTurnsPerLook = 16;

void judge_end(World& world, const Conversation& conversation, const Application& own,
               const EndReport& peer, bool stormy) {
  const EndReport& report = own.report();
  const unsigned number = conversation.number;
  if (report.saw_fin && !conversation.excused && (!peer.finished || report.received != peer.sent))
    world.fail("#%u %s: a FIN after %llu bytes, but %llu were sent%s", number, own.name(),
               static_cast<unsigned long long>(report.received),
               static_cast<unsigned long long>(peer.sent), peer.finished ? "" : " and no FIN");
  const bool may_be_reset =
      stormy || report.rude || peer.rude || !conversation.plan->listening || conversation.excused;
  if (report.saw_error != 0 && !may_be_reset)
    world.fail("#%u %s: reset without a cause after %llu bytes in, %llu out", number, own.name(),
               static_cast<unsigned long long>(report.received),
               static_cast<unsigned long long>(report.sent));
}

bool went_back(const wire::CdcCursor& before, const wire::CdcCursor& after) {
  const auto wraps = static_cast<std::int16_t>(after.wrap - before.wrap);
  return wraps < 0 || (wraps == 0 && after.offset < before.offset);
}

}  // namespace

bool Conversation::over() const {
  if (client == nullptr || !client->report().gone) return false;
  for (const auto& server : servers)
    if (!server->report().gone) return false;
  return true;
}

void judge(World& world, const Conversation& conversation, const Plan& plan) {
  static const EndReport kNobody;
  const EndReport& client = conversation.client->report();
  unsigned served = 0;
  for (const auto& server : conversation.servers) {
    served += server->report().received != 0;
    const bool last = server == conversation.servers.back();
    // An attempt that was abandoned before any data ends in a reset, which is correct.
    judge_end(world, conversation, *server, client, plan.stormy || !last);
  }
  if (served > 1) world.fail("#%u: bytes reached two servers", conversation.number);
  const EndReport& server =
      conversation.servers.empty() ? kNobody : conversation.servers.back()->report();
  const bool may_be_refused = plan.scarce() && conversation.servers.empty();
  judge_end(world, conversation, *conversation.client, server, plan.stormy || may_be_refused);
}

void TurnChecks::check(SimProxy& proxy, const ProxySettings& settings) {
  const WorkerStats& stats = proxy.stats();
  const std::uint64_t pinned = stats.pinned_bytes.get();
  if (pinned > settings.memory_bytes)
    world_.fail("pod %u: %llu bytes registered, %zu allowed", proxy.pod(),
                static_cast<unsigned long long>(pinned), settings.memory_bytes);
  if (stats.rmb_used_bytes.get() + stats.rmb_free_bytes.get() != pinned)
    world_.fail("pod %u: elements used and free are not what is registered", proxy.pod());
  std::uint64_t used = 0;
  for (const Counter& use : stats.memory_used) used += use.get();
  if (settings.memory_limit_bytes != 0 && used > settings.memory_limit_bytes)
    world_.fail("pod %u: %llu bytes in use, %zu allowed", proxy.pod(),
                static_cast<unsigned long long>(used), settings.memory_limit_bytes);
  std::uint64_t active = 0;
  for (const auto& direction : stats.traffic)
    for (const TrafficStats& traffic : direction) active += traffic.connections_active.get();
  if (active > proxy.worker()->session_count())
    world_.fail("pod %u: more active connections than sessions", proxy.pod());
  if (stats.cdc_rejected.get() != 0 && proxy.devices().empty())
    world_.fail("a CDC without a device");
  proxy.worker()->groups().peers().for_each([this](relay::Group& group) {
    links_most_ = std::max(links_most_, group.protocol().links().active_count());
  });
  if (++turns_ % kTurnsPerLook == 0) check_rows(proxy);
}

void TurnChecks::check_rows(SimProxy& proxy) {
  SnapshotRequest request;
  request.connections_max = 1000;
  for (const ConnectionRow& row : proxy.worker()->snapshot(request).connections) {
    auto& [tx, rx] = bytes_[{proxy.life(), row.id}];
    if (row.tx_bytes < tx || row.rx_bytes < rx)
      world_.fail("pod %u: the bytes of %s go back", proxy.pod(), row.id.c_str());
    tx = row.tx_bytes;
    rx = row.rx_bytes;
    if (row.state == "handshake" && row.age_seconds > kNegotiationSecondsMax)
      world_.fail("pod %u: %s negotiates for %.0f s", proxy.pod(), row.id.c_str(), row.age_seconds);
  }
}

std::uint64_t MessageChecks::speakers(wire::LlcVersion version) const {
  return static_cast<std::uint64_t>(
      std::count_if(versions_.begin(), versions_.end(),
                    [version](const auto& entry) { return entry.second == version; }));
}

void MessageChecks::check_llc(const SimQueuePair& sender, std::span<const std::byte> message) {
  world_.trace("qp %06x: LLC %02x flags %02x", sender.number().value,
               std::to_integer<unsigned>(message[0]), std::to_integer<unsigned>(message[3]));
  const Result<wire::LlcMessage> llc = wire::decode_llc(message);
  if (!llc) return world_.fail("an LLC message that cannot be decoded: %s", llc.error().what);
  if (std::holds_alternative<wire::ConfirmRkeyCont>(llc->body)) ++continuations_;
  if (llc->version == wire::LlcVersion::k1 && message.size() != wire::kLlcBytes)
    return world_.fail("an LLC message of version 1 has %zu bytes", message.size());
  if (versions_.try_emplace(sender.id(), llc->version).first->second != llc->version)
    world_.fail("a queue pair mixes LLC versions");
}

void MessageChecks::check(const SimQueuePair& sender, std::span<const std::byte> message) {
  if (!wire::is_cdc(message)) return check_llc(sender, message);
  const Result<wire::CdcMessage> cdc = wire::decode_cdc(message);
  if (!cdc) return world_.fail("a CDC message that cannot be decoded");
  if (cdc->producer_flags.failover_validation) return;  // has no valid cursors
  const auto [at, first] = last_.try_emplace({sender.id(), cdc->token.value}, *cdc);
  if (first) return;
  wire::CdcMessage& last = at->second;
  // Tokens are reused, and then all counts begin from zero.
  if (cdc->sequence != 1) {
    if (static_cast<std::uint16_t>(last.sequence + 1) != cdc->sequence)
      world_.fail("CDC %u follows %u", cdc->sequence, last.sequence);
    if (went_back(last.producer, cdc->producer) || went_back(last.consumer, cdc->consumer))
      world_.fail("a cursor goes back in CDC %u", cdc->sequence);
    const wire::ConnectionStateFlags& flags = cdc->state;
    if ((last.state.done_writing && !flags.done_writing) || (last.state.closed && !flags.closed) ||
        (last.state.aborted && !flags.aborted))
      world_.fail("a state flag is taken back in CDC %u", cdc->sequence);
  }
  last = *cdc;
}

}  // namespace fairlead::sim
