#include "admin/metrics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "admin/code_text.h"
#include "admin/metric_catalog.h"
#include "exposition/families.h"

namespace fairlead::admin {
namespace {

using exposition::HistogramValue;
using exposition::Labels;
using Families = exposition::Families<Metric>;

constexpr std::array kBothDirections = {Direction::kOutbound, Direction::kInbound};
constexpr std::array kTransportsShown = {Transport::kSmcr, Transport::kTcp, Transport::kShort};
constexpr std::array kBothSides = {Side::kLocal, Side::kPeer};

Labels traffic_labels(Direction direction, Transport transport) {
  return {{"direction", std::string(to_string(direction))},
          {"transport", std::string(to_string(transport))}};
}

Labels with(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

void add_traffic(Families& out, StatsSpan stats) {
  for (Direction direction : kBothDirections) {
    for (Transport transport : kTransportsShown) {
      const auto sum = [&](Counter TrafficStats::*counter) {
        return sum_of(stats, [&](const WorkerStats& worker) -> const Counter& {
          return worker.traffic[direction][transport].*counter;
        });
      };
      const Labels labels = traffic_labels(direction, transport);
      out.set(Metric::kConnectionsTotal, labels, sum(&TrafficStats::connections_total));
      out.set(Metric::kConnectionsActive, labels, sum(&TrafficStats::connections_active));
      out.set(Metric::kBytesTotal, with(labels, "flow", "tx"), sum(&TrafficStats::tx_bytes));
      out.set(Metric::kBytesTotal, with(labels, "flow", "rx"), sum(&TrafficStats::rx_bytes));
    }
  }
}

void add_fallbacks(Families& out, StatsSpan stats) {
  for (Direction direction : kBothDirections) {
    for (Side side : kBothSides) {
      for (const FallbackInfo& info : fallback_table()) {
        const std::uint64_t count = sum_of(stats, [&](const WorkerStats& worker) -> const Counter& {
          return worker.fallback[direction][side][info.reason];
        });
        if (count == 0) continue;  // of over two hundred combinations, few ever occur in one pod
        out.set(Metric::kFallbackTotal,
                {{"direction", std::string(to_string(direction))},
                 {"side", std::string(to_string(side))},
                 {"reason", std::string(info.name)},
                 {"code", code_text(info.code)}},
                count);
      }
    }
  }
}

// `histogram`: that of a worker.
template <class Get>
HistogramValue sum_histogram(StatsSpan stats, Get histogram) {
  HistogramValue sum;
  std::uint64_t nanoseconds = 0;
  for (const WorkerStats* worker : stats) nanoseconds += histogram(*worker).sum_nanoseconds();
  sum.sum = static_cast<double>(nanoseconds) / 1e9;
  for (std::size_t index = 0; index < Histogram::kBucketCount; ++index) {
    const double bound = index < kWaitBucketsSeconds.size()
                             ? kWaitBucketsSeconds[index]
                             : std::numeric_limits<double>::infinity();
    std::uint64_t count = 0;
    for (const WorkerStats* worker : stats) count += histogram(*worker).bucket(index);
    sum.buckets.push_back({bound, count});
  }
  return sum;
}

void add_handshakes(Families& out, StatsSpan stats) {
  out.set(Metric::kHandshakeDuration, {{"result", "smcr"}},
          sum_histogram(stats, std::mem_fn(&WorkerStats::handshake_smcr)));
  out.set(Metric::kHandshakeDuration, {{"result", "fallback"}},
          sum_histogram(stats, std::mem_fn(&WorkerStats::handshake_fallback)));
}

// Those in which nothing has been observed are left out: they have many series.
void add_waits(Families& out, StatsSpan stats) {
  const auto add = [&](Metric metric, Direction direction, auto histograms) {
    HistogramValue sum = sum_histogram(stats, [&](const WorkerStats& worker) -> const Histogram& {
      return (worker.*histograms)[direction];
    });
    const bool any = std::any_of(sum.buckets.begin(), sum.buckets.end(),
                                 [](const auto& bucket) { return bucket.count != 0; });
    if (any) out.set(metric, {{"direction", std::string(to_string(direction))}}, std::move(sum));
  };
  for (const Direction direction : kBothDirections) {
    add(Metric::kFirstAnswer, direction, &WorkerStats::first_answer);
    add(Metric::kLongestWait, direction, &WorkerStats::longest_wait);
  }
}

void add_tcp_losses(Families& out, const TcpLosses& losses) {
  const std::pair<const char*, std::uint64_t> kinds[] = {{"retransmitted", losses.retransmitted},
                                                         {"timeouts", losses.timeouts},
                                                         {"receive_drops", losses.receive_drops},
                                                         {"receive_prunes", losses.receive_prunes}};
  for (const auto& [kind, count] : kinds) out.set(Metric::kTcpLosses, {{"kind", kind}}, count);
}

// A counter of WorkerStats that is exported under one label, or under none.
struct PlainMetric {
  Metric metric;
  Counter WorkerStats::*counter;
  const char* label;
  const char* value;
};

constexpr PlainMetric kPlainMetrics[] = {
    {Metric::kConnectionsMoved, &WorkerStats::connections_moved, nullptr, nullptr},
    {Metric::kConnectionsReset, &WorkerStats::connections_reset, nullptr, nullptr},
    {Metric::kPeerTimeouts, &WorkerStats::peer_timeouts, nullptr, nullptr},
    {Metric::kMemoryRefused, &WorkerStats::refused_memory, nullptr, nullptr},
    {Metric::kDescriptorsRefused, &WorkerStats::refused_descriptors, nullptr, nullptr},
    {Metric::kPeerFaults, &WorkerStats::peer_faults, nullptr, nullptr},
    {Metric::kAcceptErrors, &WorkerStats::accept_errors, nullptr, nullptr},
    {Metric::kTakenBack, &WorkerStats::taken_back, "result", "kept"},
    {Metric::kTakenBack, &WorkerStats::taken_back_lost, "result", "lost"},
    {Metric::kLinkGroups, &WorkerStats::link_groups_single, "state", "single"},
    {Metric::kLinkGroups, &WorkerStats::link_groups_symmetric, "state", "symmetric"},
    {Metric::kLinkGroups, &WorkerStats::link_groups_asymmetric_local, "state", "asymmetric_local"},
    {Metric::kLinkGroups, &WorkerStats::link_groups_asymmetric_peer, "state", "asymmetric_peer"},
    {Metric::kLinkGroups, &WorkerStats::link_groups_none, "state", "none"},
    {Metric::kLinksActive, &WorkerStats::links_active, nullptr, nullptr},
    {Metric::kLinkEvents, &WorkerStats::link_added, "event", "added"},
    {Metric::kLinkEvents, &WorkerStats::link_deleted, "event", "deleted"},
    {Metric::kLinkEvents, &WorkerStats::link_failed, "event", "failed"},
    {Metric::kLinkEvents, &WorkerStats::link_moved, "event", "moved"},
    {Metric::kLinkEvents, &WorkerStats::link_refused, "event", "refused"},
    {Metric::kLinkTest, &WorkerStats::link_test_ok, "result", "ok"},
    {Metric::kLinkTest, &WorkerStats::link_test_timeout, "result", "timeout"},
    {Metric::kMemoryLimit, &WorkerStats::memory_limit_bytes, nullptr, nullptr},
    {Metric::kPinnedMemory, &WorkerStats::pinned_bytes, nullptr, nullptr},
    {Metric::kPinnedMemoryLimit, &WorkerStats::pinned_limit_bytes, nullptr, nullptr},
    {Metric::kRmbBytes, &WorkerStats::rmb_used_bytes, "state", "used"},
    {Metric::kRmbBytes, &WorkerStats::rmb_free_bytes, "state", "free"},
    {Metric::kBufferFull, &WorkerStats::buffer_full_local, "side", "local"},
    {Metric::kBufferFull, &WorkerStats::buffer_full_peer, "side", "peer"},
    {Metric::kBufferDowngrade, &WorkerStats::buffer_downgrade, nullptr, nullptr},
    {Metric::kSlabsReturned, &WorkerStats::slabs_returned, nullptr, nullptr},
    {Metric::kCdcMessages, &WorkerStats::cdc_sent, "result", "sent"},
    {Metric::kCdcMessages, &WorkerStats::cdc_received, "result", "received"},
    {Metric::kCdcMessages, &WorkerStats::cdc_rejected, "result", "rejected"},
    {Metric::kLlcMessages, &WorkerStats::llc_sent, "result", "sent"},
    {Metric::kLlcMessages, &WorkerStats::llc_received, "result", "received"},
    {Metric::kLlcMessages, &WorkerStats::llc_rejected, "result", "rejected"},
    {Metric::kReceiveQueueLow, &WorkerStats::receive_limit_events, nullptr, nullptr},
    {Metric::kLoopTurns, &WorkerStats::loop_turns, nullptr, nullptr},
    {Metric::kSpinPolls, &WorkerStats::spin_hits, "result", "hit"},
    {Metric::kSpinPolls, &WorkerStats::spin_misses, "result", "miss"},
};

void add_client_addresses(Families& out, StatsSpan stats) {
  for (const ClientAddressInfo& info : kClientAddressTable)
    out.set(Metric::kClientAddress, {{"result", std::string(info.name)}},
            sum_of(stats, [&](const WorkerStats& worker) -> const Counter& {
              return worker.client_address[info.value];
            }));
}

void add_direct(Families& out, const DirectReport& direct) {
  if (!direct.unavailable.empty()) return;
  std::map<std::string, std::uint64_t> counts;
  for (const DestinationRow& row : direct.destinations) ++counts[row.reason];
  for (const auto& [reason, count] : counts)
    out.set(Metric::kDestinationsDirect, {{"reason", reason}}, count);
  out.set(Metric::kDirectConnections, direct.connections);
}

// In the order of RefusedFor.
constexpr std::array<const char*, kRefusedFor> kRefusedForNames = {"limit", "denied", "handshake",
                                                                   "redirect"};

void add_refused(Families& out, StatsSpan stats) {
  for (std::size_t reason = 0; reason < kRefusedFor; ++reason)
    out.set(Metric::kConnectionsRefused, {{"reason", kRefusedForNames[reason]}},
            sum_of(stats, [&](const WorkerStats& worker) -> const Counter& {
              return worker.refused[static_cast<RefusedFor>(reason)];
            }));
}

// In the order of MemoryUse.
constexpr std::array<const char*, kMemoryUses> kMemoryUseNames = {"rings", "peer_rings", "messages",
                                                                  "connections"};

void add_memory(Families& out, StatsSpan stats) {
  for (std::size_t use = 0; use < kMemoryUses; ++use)
    out.set(Metric::kMemory, {{"use", kMemoryUseNames[use]}},
            sum_of(stats, [&](const WorkerStats& worker) -> const Counter& {
              return worker.memory_used[static_cast<MemoryUse>(use)];
            }));
}

void add_plain(Families& out, StatsSpan stats) {
  for (const PlainMetric& plain : kPlainMetrics) {
    Labels labels;
    if (plain.label != nullptr) labels.push_back({plain.label, plain.value});
    out.set(plain.metric, std::move(labels), sum_of(stats, plain.counter));
  }
  out.set(Metric::kHandOverGap, {},
          static_cast<double>(sum_of(stats, &WorkerStats::parked_nanoseconds)) / 1e9);
  out.set(Metric::kSpinSeconds, {},
          static_cast<double>(sum_of(stats, &WorkerStats::spin_nanoseconds)) / 1e9);
}

using PortKey = std::pair<std::string, unsigned>;

Labels port_labels(const PortKey& port) {
  return {{"rnic", port.first}, {"port", std::to_string(port.second)}};
}

void add_devices(Families& out, const GatheredSnapshot& snapshot) {
  std::map<PortKey, bool> up;
  std::map<PortKey, bool> gid_usable;
  std::set<std::pair<std::string, std::string>> pnets;
  bool missing = false;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const DeviceRow& row : worker.devices) {
      missing = missing || row.missing;
      // There is no port to alert about.
      if (row.state == kDeviceAbsent || row.state == kDeviceUnsupported) continue;
      const PortKey port{row.name, row.port};
      // Every worker has opened the device for itself; one that lost it is worth an alert.
      const auto [seen_up, first] = up.try_emplace(port, true);
      seen_up->second = seen_up->second && row.state == "active";
      gid_usable[port] = gid_usable[port] || !row.gid.empty();
      if (!row.pnet.empty()) pnets.emplace(row.pnet, row.pnet_source);
    }
  }
  for (const auto& [port, is_up] : up)
    out.set(Metric::kRnicPortUp, port_labels(port), std::uint64_t{is_up});
  for (const auto& [port, is_usable] : gid_usable)
    out.set(Metric::kRnicGidUsable, port_labels(port), std::uint64_t{is_usable});
  out.set(Metric::kRnicMissing, std::uint64_t{missing});
  for (const auto& [pnet, source] : pnets)
    out.set(Metric::kPnetInfo, {{"pnet", pnet}, {"source", source}}, std::uint64_t{1});
}

void add_links(Families& out, const GatheredSnapshot& snapshot) {
  std::map<std::tuple<std::string, unsigned, std::string>, std::uint64_t> counts;
  std::map<std::string, double> rtt_max;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const LinkGroupRow& group : worker.link_groups) {
      for (const LinkRow& link : group.links) {
        ++counts[{link.rnic, link.port, link.state}];
        if (link.rtt_seconds > 0)
          rtt_max[link.rnic] = std::max(rtt_max[link.rnic], link.rtt_seconds);
      }
    }
  }
  for (const auto& [key, count] : counts) {
    const auto& [rnic, port, state] = key;
    out.set(Metric::kLinks, with(port_labels({rnic, port}), "state", state), count);
  }
  for (const auto& [rnic, seconds] : rtt_max) out.set(Metric::kLinkRtt, {{"rnic", rnic}}, seconds);
}

void add_process(Families& out, const ProcessUsage& process) {
  out.set(Metric::kProcessCpu, {}, process.cpu_seconds);
  out.set(Metric::kProcessMemory, process.resident_bytes);
  out.set(Metric::kProcessOpenFds, process.open_fds);
  out.set(Metric::kProcessMaxFds, process.max_fds);
  out.set(Metric::kProcessStart, {}, process.start_time_seconds);
}

}  // namespace

std::string render_metrics(const MetricsInput& input) {
  Families out(metric_catalog());
  out.set(Metric::kBuildInfo,
          {{"version", input.build.version},
           {"revision", input.build.revision},
           {"backend", input.build.backend}},
          std::uint64_t{1});
  out.set(Metric::kReady, std::uint64_t{input.ready});
  out.set(Metric::kDraining, std::uint64_t{input.draining});
  out.set(Metric::kWorkers, {{"state", "answering"}},
          std::uint64_t{input.stats.size() - input.snapshot.silent.size()});
  out.set(Metric::kWorkers, {{"state", "silent"}}, std::uint64_t{input.snapshot.silent.size()});
  add_traffic(out, input.stats);
  add_fallbacks(out, input.stats);
  add_handshakes(out, input.stats);
  add_waits(out, input.stats);
  add_tcp_losses(out, input.tcp_losses);
  add_memory(out, input.stats);
  add_plain(out, input.stats);
  out.set(Metric::kLogDropped, input.log_dropped);
  add_client_addresses(out, input.stats);
  add_direct(out, input.direct);
  add_links(out, input.snapshot);
  add_devices(out, input.snapshot);
  add_refused(out, input.stats);
  if (input.http_refusals != nullptr)
    for (const event::HttpRefusal reason : event::kAllHttpRefusals)
      out.set(Metric::kHttpRefused, {{"reason", std::string(to_string(reason))}},
              input.http_refusals->count(reason));
  add_process(out, input.process);
  return out.text();
}

}  // namespace fairlead::admin
