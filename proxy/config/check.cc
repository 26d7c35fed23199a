#include "config/check.h"

#include <algorithm>
#include <initializer_list>

#include "config/key.h"
#include "config/scalar.h"

namespace fairlead::config {
namespace {

using Places = std::map<std::string, Origin>;

// The first of the keys that was set.
struct Place {
  Origin origin;
  std::string key;
};

Place place_of(std::initializer_list<std::string> keys, const Places& set, const Origin& whole) {
  for (const std::string& key : keys)
    if (const auto found = set.find(key); found != set.end()) return {found->second, key};
  return {whole, *keys.begin()};
}

std::string listener_key(std::size_t index) { return indexed("listeners", index); }

// Reports every listener that is like an earlier one.
void check_listener_pair(const Config& config, std::size_t earlier, std::size_t later,
                         const Places& set, const Origin& whole, Findings& findings) {
  const Listener& a = config.listeners[earlier];
  const Listener& b = config.listeners[later];
  const std::string key = listener_key(later);
  if (!b.name.empty() && a.name == b.name) {
    const Place at = place_of({key + ".name", key}, set, whole);
    findings.add(at.origin, at.key,
                 in_quotes(b.name) + " is already the name of " + listener_key(earlier) +
                     "; allowed: a name of its own");
  }
  if (b.listen.port() != 0 && a.listen == b.listen) {
    const Place at = place_of({key + ".listen", key}, set, whole);
    findings.add(at.origin, at.key,
                 to_string(b.listen) + " is already the address of " + listener_key(earlier) +
                     "; allowed: an address of its own");
  }
}

void check_listener(const Config& config, std::size_t index, const Places& set, const Origin& whole,
                    Findings& findings) {
  const Listener& listener = config.listeners[index];
  const std::string key = listener_key(index);
  const bool is_static = listener.mode == ListenerMode::kStatic;
  const bool mode_known = set.contains(key + ".mode") && !findings.has(key + ".mode");
  const Place at = place_of({key + ".upstream", key}, set, whole);
  // An upstream that was given but is wrong has been reported already.
  if (mode_known && is_static && !listener.upstream && at.key == key)
    findings.add(at.origin, key,
                 "mode static lacks an upstream; allowed: upstream: 10.0.0.1:80, or mode redirect "
                 "or tproxy");
  if (mode_known && !is_static && listener.upstream)
    findings.add(at.origin, at.key,
                 "mode " + std::string(to_string(listener.mode)) +
                     " finds the destination itself; allowed: no upstream, or mode static");
  if (listener.upstream && *listener.upstream == listener.listen)
    findings.add(at.origin, at.key,
                 to_string(listener.listen) +
                     " is the listener's own address, so it would connect to itself; allowed: "
                     "another address");
  if (config.admin.listen && listener.listen.port() != 0 &&
      *config.admin.listen == listener.listen) {
    const Place admin = place_of({"admin.listen", key + ".listen"}, set, whole);
    findings.add(admin.origin, admin.key,
                 to_string(listener.listen) + " is the address both of admin and of " + key +
                     "; allowed: an address of its own");
  }
}

void check_listeners(const Config& config, const Places& set, const Origin& whole,
                     Findings& findings) {
  // A list that could not be read has been reported already.
  if (config.listeners.empty() && !set.contains("listeners"))
    findings.add(whole, "listeners", "there is no listener; allowed: 1 to 64 of them");
  for (std::size_t later = 0; later < config.listeners.size(); ++later) {
    check_listener(config, later, set, whole, findings);
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      check_listener_pair(config, earlier, later, set, whole, findings);
  }
}

// A rule without conditions is a slip: an empty list of ports, or a mapping that names nothing.
void check_conditions(const std::vector<ConnectionRule>& rules, const std::string& list,
                      const Places& set, const Origin& whole, Findings& findings) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string key = indexed(list, i);
    if (rules[i].cidr || !rules[i].ports.empty() || findings.has(key)) continue;
    const Place at = place_of({key, list}, set, whole);
    findings.add(at.origin, key,
                 "has neither cidr nor ports; allowed: at least one of them, as in 10.0.0.0/8, "
                 "\"10.0.0.0/8 port 5432\" or \"port 5432\"");
  }
}

// No connection may be both what is never tried and what has to be SMC-R.
void check_connection_rules(const Config& config, const Places& set, const Origin& whole,
                            Findings& findings) {
  const Smc& smc = config.smc;
  check_conditions(smc.exclude, "smc.exclude", set, whole, findings);
  check_conditions(smc.require, "smc.require", set, whole, findings);
  for (std::size_t i = 0; i < smc.require.size(); ++i) {
    const std::string key = indexed("smc.require", i);
    const ConnectionRule* const other = first_overlapping(smc.exclude, smc.require[i]);
    if (other == nullptr || findings.has(key)) continue;
    const std::string excluding =
        indexed("smc.exclude", static_cast<std::size_t>(other - smc.exclude.data()));
    if (findings.has(excluding)) continue;
    const Place at = place_of({key, "smc.require"}, set, whole);
    findings.add(at.origin, key,
                 in_quotes(to_string(smc.require[i])) + " and " + excluding + ", " +
                     in_quotes(to_string(*other)) +
                     ", have connections in common; allowed: blocks or ports that no rule of "
                     "smc.exclude has");
  }
  if (!smc.require.empty() && !smc.enabled) {
    const Place at = place_of({"smc.require", "smc.enabled"}, set, whole);
    findings.add(at.origin, at.key,
                 "no connection could be SMC-R, as smc.require wants; allowed: smc.enabled: true, "
                 "or no rule");
  }
}

}  // namespace

void settle_defaults(Config& config, const Places& set) {
  if (!set.contains("buffers.publish"))
    config.buffers.publish = std::min(config.buffers.publish, config.buffers.size);
  if (!set.contains("limits.handshakes"))
    config.limits.handshakes = std::min(config.limits.handshakes, config.limits.connections);
}

void check_relations(const Config& config, const Places& set, const Origin& whole,
                     Findings& findings) {
  check_listeners(config, set, whole, findings);
  check_connection_rules(config, set, whole, findings);
  const Buffers& buffers = config.buffers;
  if (buffers.size_min > buffers.size) {
    const Place at = place_of({"buffers.size_min", "buffers.size"}, set, whole);
    findings.add(at.origin, at.key,
                 "size_min " + size_text(buffers.size_min) + " is more than size " +
                     size_text(buffers.size) + "; allowed: size_min up to size");
  }
  if (buffers.publish > buffers.size) {
    const Place at = place_of({"buffers.publish", "buffers.size"}, set, whole);
    findings.add(at.origin, at.key,
                 "publish " + size_text(buffers.publish) + " is more than size " +
                     size_text(buffers.size) + "; allowed: publish up to size");
  }
  if (config.memory.limit < buffers.size_min) {
    const Place at = place_of({"memory.limit", "buffers.size_min"}, set, whole);
    findings.add(at.origin, at.key,
                 "limit " + size_text(config.memory.limit) + " has no room for one buffer of " +
                     size_text(buffers.size_min) + "; allowed: at least buffers.size_min");
  }
  if (config.limits.handshakes > config.limits.connections) {
    const Place at = place_of({"limits.handshakes", "limits.connections"}, set, whole);
    findings.add(at.origin, at.key,
                 std::to_string(config.limits.handshakes) + " handshakes are more than " +
                     std::to_string(config.limits.connections) +
                     " connections; allowed: handshakes up to connections");
  }
  if (config.fallback == FallbackPolicy::kDeny && !config.smc.enabled) {
    const Place at = place_of({"fallback", "smc.enabled"}, set, whole);
    findings.add(at.origin, at.key,
                 "neither SMC-R nor TCP would be left; allowed: fallback: allow, or smc.enabled: "
                 "true");
  }
}

}  // namespace fairlead::config
