#include "admin/checks.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

namespace fairlead::admin {
namespace {

Fact ok(std::string name, std::string text) {
  return {std::move(name), FactStatus::kOk, std::move(text), ""};
}
Fact warn(std::string name, std::string text, std::string fix) {
  return {std::move(name), FactStatus::kWarn, std::move(text), std::move(fix)};
}
Fact fail(std::string name, std::string text, std::string fix) {
  return {std::move(name), FactStatus::kFail, std::move(text), std::move(fix)};
}

template <class List>
std::string join(const List& list, const char* separator) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

Fact check_ready(const CheckInput& input) {
  if (!input.not_ready.empty())
    return fail("ready", join(input.not_ready, "; "), "wait, or see the proxy's log");
  if (input.draining)
    return warn("ready", "draining: new connections are TCP",
                "nothing to do if the pod is ending; else restart the proxy");
  return ok("ready", "able to serve");
}

Fact check_workers(const CheckInput& input) {
  const std::string all = std::to_string(input.stats.size());
  if (input.snapshot.silent.empty()) return ok("workers", all + " answering");
  std::vector<std::string> numbers;
  for (unsigned worker : input.snapshot.silent) numbers.push_back(std::to_string(worker));
  return fail("workers", "no answer in time from worker " + join(numbers, ", ") + " of " + all,
              "the worker is stuck or starved of CPU; raise the CPU limit, or restart the proxy");
}

std::string hint_of(const std::string& reason) {
  const FallbackInfo* const info = find_fallback(reason);
  return info == nullptr ? "" : std::string(info->hint);
}

Fact check_devices(const CheckInput& input) {
  std::set<std::string> active;
  std::set<std::string> lacking_gid;
  std::set<std::string> down;
  std::set<std::string> passed_over;
  std::string absent;  // why the node gave no RNIC
  bool missing = false;
  std::string hint;  // of the first device with a reason
  for (const WorkerSnapshot& worker : input.snapshot.workers) {
    for (const DeviceRow& row : worker.devices) {
      // A device that could not be opened shows no ports.
      const std::string port = row.port == 0 ? row.name : row.name + "/" + std::to_string(row.port);
      if (hint.empty()) hint = hint_of(row.reason);
      missing = missing || row.missing;
      if (row.state == kDeviceAbsent)
        absent = row.detail;
      else if (row.state == kDeviceUnsupported)
        passed_over.insert(port + " (" + row.detail + ")");
      else if (row.state != "active")
        down.insert(row.detail.empty() ? port : port + " (" + row.detail + ")");
      else if (row.gid.empty())
        lacking_gid.insert(port);
      else if (row.reason == fallback_info(FallbackReason::kNoPnet).name)
        passed_over.insert(port + " (" + row.detail + ")");
      else
        active.insert(port);
    }
  }
  const bool none = active.empty() && down.empty() && lacking_gid.empty();
  // Neither configuration nor node means the proxy to have one.
  if (none && !missing && passed_over.empty())
    return ok("devices", "none: every connection is TCP" + (absent.empty() ? "" : "; " + absent));
  if (none)
    return warn("devices",
                "no device: every connection is TCP" + (absent.empty() ? "" : "; " + absent) +
                    (passed_over.empty() ? "" : "; passed over " + join(passed_over, ", ")),
                "give the container an RDMA device; between pods of one node "
                "fairlead.io/shared-memory helps, too");
  if (active.empty() && !lacking_gid.empty())
    return fail("devices", "no usable GID on " + join(lacking_gid, ", "),
                "give the RNIC's network interface an IPv4 address; see fairleadctl devices");
  if (active.empty())
    return fail(
        "devices", "no active port: " + join(down, ", "),
        hint.empty() ? "see fairleadctl devices; check cable, switch, and /dev/infiniband" : hint);
  std::string text = "active " + join(active, ", ");
  if (!absent.empty()) text += "; no RNIC: " + absent;
  if (!passed_over.empty()) text += "; passed over " + join(passed_over, ", ");
  if (lacking_gid.empty() && down.empty() && !missing) return ok("devices", std::move(text));
  if (!down.empty()) text += "; down " + join(down, ", ");
  if (!lacking_gid.empty()) text += "; without usable GID " + join(lacking_gid, ", ");
  return warn("devices", std::move(text),
              hint.empty() ? "connections lack a second path; see fairleadctl devices" : hint);
}

// FairleadLinkFlapping, on average since the start.
Fact check_links(const CheckInput& input) {
  const std::uint64_t failed = sum_of(input.stats, &WorkerStats::link_failed);
  const std::string text = std::to_string(sum_of(input.stats, &WorkerStats::links_active)) +
                           " active, " + std::to_string(failed) + " failed since the start";
  const double periods = std::max(1.0, input.uptime_seconds / kFlappingSeconds);
  if (static_cast<double>(failed) <= kFlappingFailures * periods) return ok("links", text);
  return warn(
      "links", text,
      "see fairleadctl links: errors of a port (rdma statistic), or a path that loses RoCE");
}

Fact check_link_groups(const CheckInput& input) {
  const auto sum = [&](Counter WorkerStats::*counter) { return sum_of(input.stats, counter); };
  const std::uint64_t asymmetric = sum(&WorkerStats::link_groups_asymmetric_local) +
                                   sum(&WorkerStats::link_groups_asymmetric_peer);
  const std::uint64_t dead = sum(&WorkerStats::link_groups_none);
  const std::uint64_t healthy =
      sum(&WorkerStats::link_groups_single) + sum(&WorkerStats::link_groups_symmetric);
  const std::string all = std::to_string(asymmetric + dead + healthy);
  if (dead > 0)
    return warn("link_groups", std::to_string(dead) + " of " + all + " have no active link",
                "see fairleadctl links; a port or the path to the peer is down");
  if (asymmetric > 0)
    return warn("link_groups", std::to_string(asymmetric) + " of " + all + " are asymmetric",
                "one side reaches the group by a single RNIC; see fairleadctl linkgroups");
  return ok("link_groups", healthy == 0 ? "none yet" : all + " healthy");
}

std::uint64_t fallback_count(const CheckInput& input, FallbackReason reason,
                             std::initializer_list<Side> sides) {
  std::uint64_t count = 0;
  for (Direction direction : {Direction::kOutbound, Direction::kInbound})
    for (Side side : sides)
      count += sum_of(input.stats, [&](const WorkerStats& worker) -> const Counter& {
        return worker.fallback[direction][side][reason];
      });
  return count;
}

std::uint64_t carried(const CheckInput& input, Transport transport) {
  std::uint64_t count = 0;
  for (Direction direction : {Direction::kOutbound, Direction::kInbound})
    count += sum_of(input.stats, [&](const WorkerStats& worker) -> const Counter& {
      return worker.traffic[direction][transport].connections_total;
    });
  return count;
}

// The proxy has an RNIC, or configuration and node mean it to have one.
bool meant_to_have_rnic(const GatheredSnapshot& snapshot) {
  for (const WorkerSnapshot& worker : snapshot.workers)
    for (const DeviceRow& row : worker.devices)
      if (row.missing || (row.kind == "verbs" && row.state != kDeviceAbsent)) return true;
  return false;
}

// FairleadFallbackRateHigh and FairleadAllTrafficFallback.
Fact check_fallbacks(const CheckInput& input) {
  const bool meant = meant_to_have_rnic(input.snapshot);
  const std::uint64_t smcr = carried(input, Transport::kSmcr);
  std::uint64_t bad = 0, others = 0, most = 0;
  const FallbackInfo* worst = nullptr;
  for (const FallbackInfo& info : fallback_table()) {
    const FallbackAlarm alarm = fallback_alarm(info.reason);
    const std::uint64_t local = fallback_count(input, info.reason, {Side::kLocal});
    const std::uint64_t all = local + fallback_count(input, info.reason, {Side::kPeer});
    std::uint64_t count = 0;
    if (alarm == FallbackAlarm::kShare)
      count = all;
    else if (alarm == FallbackAlarm::kMeant && meant && smcr == 0)
      count = local;
    bad += count;
    others += all - count;
    if (count > most) {
      most = count;
      worst = &info;
    }
  }
  if (worst == nullptr)
    return ok("fallbacks",
              "none to mend (" + std::to_string(others) + " wanted, ordinary, or without an RNIC)");
  std::string text = std::to_string(bad) + " of " +
                     std::to_string(smcr + carried(input, Transport::kTcp)) +
                     " connections became TCP, mostly by " + std::string(worst->name) + " (" +
                     std::to_string(most) + "): " + std::string(worst->sentence);
  if (meant && smcr == 0) text += "; none is SMC-R";
  return warn("fallbacks", std::move(text), std::string(worst->hint));
}

// FairleadMemlockLimit, and what comes before it.
Fact check_memory(const CheckInput& input) {
  constexpr const char* kFix = "raise memory.limit or RLIMIT_MEMLOCK, or lower buffers.size";
  const std::uint64_t pinned = sum_of(input.stats, &WorkerStats::pinned_bytes);
  const std::uint64_t limit = sum_of(input.stats, &WorkerStats::pinned_limit_bytes);
  std::uint64_t refused = 0;
  for (const FallbackReason reason : {FallbackReason::kMemlockLimit, FallbackReason::kMemory,
                                      FallbackReason::kMemoryRegistration})
    refused += fallback_count(input, reason, {Side::kLocal});
  const std::string used = std::to_string(pinned >> 10) + " KiB registered";
  if (limit == 0 && refused == 0) return ok("memory", used + ", no limit known");
  std::string text = used + " of " + std::to_string(limit >> 10) + " KiB";
  if (refused != 0)
    return warn("memory", text + "; " + std::to_string(refused) + " connections are TCP for it",
                kFix);
  if (static_cast<double>(pinned) < kPinnedShareWarn * static_cast<double>(limit))
    return ok("memory", std::move(text));
  return warn("memory", std::move(text), kFix);
}

Fact check_limits(const CheckInput& input) {
  const std::uint64_t refused =
      sum_of(input.stats, [](const WorkerStats& worker) -> const Counter& {
        return worker.refused[RefusedFor::kLimit];
      });
  const std::uint64_t accept_errors = sum_of(input.stats, &WorkerStats::accept_errors);
  if (refused == 0 && accept_errors == 0) return ok("limits", "none was reached");
  return warn("limits",
              std::to_string(refused) + " connections refused at a limit, " +
                  std::to_string(accept_errors) + " failures of accept",
              "raise limits.connections and the container's nofile limit");
}

// Nothing before the first connection of a redirect.
std::optional<Fact> check_redirect(const CheckInput& input) {
  const std::uint64_t redirected = sum_of(input.stats, &WorkerStats::redirected);
  const std::uint64_t missing =
      sum_of(input.stats, [](const WorkerStats& worker) -> const Counter& {
        return worker.refused[RefusedFor::kRedirect];
      });
  if (redirected + missing == 0) return std::nullopt;
  const std::string text = std::to_string(redirected) + " connections were redirected, " +
                           std::to_string(missing) + " reached the port directly";
  const std::string hint(kNoDestinationHint);
  if (redirected == 0) return fail("redirect", text, hint);
  return missing == 0 ? ok("redirect", text) : warn("redirect", text, hint);
}

}  // namespace

std::vector<Fact> standing_checks(const CheckInput& input) {
  std::vector<Fact> checks = {
      check_ready(input), check_workers(input),   check_devices(input), check_link_groups(input),
      check_links(input), check_fallbacks(input), check_memory(input),  check_limits(input)};
  if (std::optional<Fact> redirect = check_redirect(input)) checks.push_back(std::move(*redirect));
  return checks;
}

}  // namespace fairlead::admin
