#include "config/config.h"

#include <algorithm>

#include "config/cpu_limit.h"

namespace fairlead::config {

std::string_view to_string(ListenerMode mode) {
  switch (mode) {
    case ListenerMode::kStatic:
      return "static";
    case ListenerMode::kRedirect:
      return "redirect";
    case ListenerMode::kTproxy:
      return "tproxy";
  }
  return "";
}

std::string_view to_string(SmcVersion version) {
  switch (version) {
    case SmcVersion::kAuto:
      return "auto";
    case SmcVersion::kOne:
      return "1";
    case SmcVersion::kTwo:
      return "2";
  }
  return "?";
}

std::string_view to_string(GidTypeChoice choice) {
  switch (choice) {
    case GidTypeChoice::kAuto:
      return "auto";
    case GidTypeChoice::kRoceV1:
      return "rocev1";
    case GidTypeChoice::kRoceV2:
      return "rocev2";
  }
  return "";
}

std::string_view to_string(OptionProgram program) {
  switch (program) {
    case OptionProgram::kAuto:
      return "auto";
    case OptionProgram::kAttach:
      return "attach";
    case OptionProgram::kExternal:
      return "external";
    case OptionProgram::kNone:
      return "none";
  }
  return "";
}

std::string_view to_string(FallbackPolicy policy) {
  switch (policy) {
    case FallbackPolicy::kAllow:
      return "allow";
    case FallbackPolicy::kDeny:
      return "deny";
  }
  return "";
}

std::string_view to_string(ClientAddressMode mode) {
  switch (mode) {
    case ClientAddressMode::kAuto:
      return "auto";
    case ClientAddressMode::kOff:
      return "off";
  }
  return "";
}

std::string_view to_string(DirectMode mode) {
  switch (mode) {
    case DirectMode::kLearned:
      return "learned";
    case DirectMode::kNever:
      return "never";
  }
  return "";
}

std::string_view to_string(DeviceUse use) {
  switch (use) {
    case DeviceUse::kAuto:
      return "auto";
    case DeviceUse::kTrue:
      return "true";
    case DeviceUse::kFalse:
      return "false";
  }
  return "";
}

std::string_view to_string(LogFormat format) {
  switch (format) {
    case LogFormat::kLogfmt:
      return "logfmt";
    case LogFormat::kJson:
      return "json";
  }
  return "";
}

unsigned worker_count(const Config& config) {
  const unsigned wanted = config.concurrency != 0 ? config.concurrency : default_workers();
  return std::clamp(wanted, 1U, kConcurrencyMax);
}

namespace {

bool any_matches(const std::vector<ConnectionRule>& rules, const SocketAddress& peer,
                 std::uint16_t server_port) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const ConnectionRule& rule) { return rule.matches(peer, server_port); });
}

bool may_defer(const Config& config) {
  return config.smc.enabled && config.smc.defer_bytes != 0 &&
         config.fallback == FallbackPolicy::kAllow;
}

}  // namespace

bool accepts_deferred(const Config& config) {
  return may_defer(config) && config.smc.require.empty();
}

bool defers(const Config& config, const SocketAddress& destination) {
  return may_defer(config) && !any_matches(config.smc.require, destination, destination.port());
}

bool excluded(const Smc& smc, const SocketAddress& peer, std::uint16_t server_port) {
  return any_matches(smc.exclude, peer, server_port);
}

bool assumed(const Smc& smc, const SocketAddress& peer, std::uint16_t server_port) {
  const bool listed = std::any_of(smc.assume.begin(), smc.assume.end(),
                                  [&](const Cidr& block) { return block.contains(peer); });
  return listed && !excluded(smc, peer, server_port);
}

bool required(const Config& config, const SocketAddress& peer, std::uint16_t server_port) {
  return config.fallback == FallbackPolicy::kDeny ||
         any_matches(config.smc.require, peer, server_port);
}

}  // namespace fairlead::config
