#include "injector/sidecar.h"

#include <charconv>
#include <string_view>

#include "base/node_annotations.h"

namespace fairlead::injector {
namespace {

constexpr const char* kConfigFile = "/etc/fairlead/pod.yaml";  // part of the image
constexpr int kStartupSecondsMax = 60;
constexpr int kLivenessPeriodSeconds = 10;
constexpr int kLivenessFailuresMax = 3;
constexpr int kProbeTimeoutSeconds = 5;
// Half of the memory limit is for connections, including kernel memory; the rest is for the proxy
// itself (docs/configuration.md, "Memory").
constexpr std::uint64_t kBufferShare = 2;

std::string wish_or(const Wishes& wishes, std::string_view name, const std::string& otherwise) {
  const auto found = wishes.find(name);
  return found == wishes.end() ? otherwise : found->second;
}

// Quantities may have different units, so they are compared by value.
template <class Parse>
std::string request_of(const std::string& wished, const std::string& usual,
                       const std::string& limit, Parse parse) {
  if (!wished.empty() || limit.empty()) return wished.empty() ? usual : wished;
  const auto most = parse(limit);
  return most && parse(usual).value_or(0) > *most ? limit : usual;
}

struct Resources {
  std::string cpu_request;
  std::string cpu_limit;
  std::string memory_request;
  std::string memory_limit;
};

Resources resources_of(const Settings& settings, const Wishes& wishes) {
  Resources wants;
  wants.cpu_limit = wish_or(wishes, "proxy-cpu-limit", settings.cpu_limit);
  wants.memory_limit = wish_or(wishes, "proxy-memory-limit", settings.memory_limit);
  wants.cpu_request = request_of(wish_or(wishes, "proxy-cpu-request", ""), settings.cpu_request,
                                 wants.cpu_limit, cpu_millis);
  wants.memory_request = request_of(wish_or(wishes, "proxy-memory-request", ""),
                                    settings.memory_request, wants.memory_limit, memory_bytes);
  return wants;
}

bool has_claim(const RnicRequest& rnic) { return rnic.own_claim || !rnic.claim_template.empty(); }

Json resources_json(const Resources& wants, const RnicRequest& rnic) {
  Json requests = Json::object();
  Json limits = Json::object();
  if (!wants.cpu_request.empty()) requests["cpu"] = wants.cpu_request;
  if (!wants.memory_request.empty()) requests["memory"] = wants.memory_request;
  if (!wants.cpu_limit.empty()) limits["cpu"] = wants.cpu_limit;
  if (!wants.memory_limit.empty()) limits["memory"] = wants.memory_limit;
  if (!rnic.resource.empty()) {
    // Request and limit of an extended resource must be equal.
    requests[rnic.resource] = "1";
    limits[rnic.resource] = "1";
  }
  Json resources = Json::object();
  if (!requests.empty()) resources["requests"] = std::move(requests);
  if (!limits.empty()) resources["limits"] = std::move(limits);
  if (has_claim(rnic)) resources["claims"] = Json::array({{{"name", kubernetes::kRnicClaimName}}});
  return resources;
}

Json environment(const Settings& settings, const Wishes& wishes, const Resources& wants,
                 const RnicRequest& rnic) {
  Json list = Json::array();
  const auto add = [&list](const std::string& name, const std::string& value) {
    list.push_back({{"name", name}, {"value", value}});
  };
  const auto add_wish = [&](const std::string& name, std::string_view wish) {
    if (const auto found = wishes.find(wish); found != wishes.end()) add(name, found->second);
  };
  add("FAIRLEAD_ADMIN_LISTEN", "[::]:" + std::to_string(admin_port_of(settings, wishes)));
  // 0: as many workers as the CPU limit allows.
  add("FAIRLEAD_CONCURRENCY", wants.cpu_limit.empty() ? std::to_string(settings.concurrency) : "0");
  const auto value_of = [&](const PodSetting& row) {
    const auto set = settings.rows.find(row.value);
    return wish_or(wishes, row.annotation,
                   set == settings.rows.end() ? std::string(row.usual) : set->second);
  };
  for (const PodSetting& row : kPodSettings)
    if (is_choice_of_pods(row)) add(variable_of(row.key), value_of(row));
  add("FAIRLEAD_DRAIN_TIMEOUT", wish_or(wishes, "shutdown-grace-period", settings.grace_period));
  // Left out where it is the proxy's own default.
  if (wish_or(wishes, "client-address", settings.client_address) == "disabled")
    add("FAIRLEAD_CLIENT_ADDRESS", "off");
  if (wish_or(wishes, "shared-memory", settings.shared_memory) == "disabled")
    add("FAIRLEAD_DEVICES_SHM_ENABLED", "false");
  if (!wants.memory_limit.empty())
    add("FAIRLEAD_MEMORY_LIMIT",
        std::to_string(memory_bytes(wants.memory_limit).value_or(0) / kBufferShare));
  if (const std::string pnet = wish_or(wishes, "pnet-id", settings.pnet_id); !pnet.empty())
    add("SMC_PNET_ID", pnet);
  add_wish("FAIRLEAD_SMC_EXCLUDE", "smc-exclude");
  add_wish("FAIRLEAD_SMC_REQUIRE", "smc-require");
  add_wish("FAIRLEAD_BUFFERS_SIZE", "buffer-size");
  for (const PodSetting& row : kPodSettings) {
    if (row.is_number() && row.value.empty()) add_wish(variable_of(row.key), row.annotation);
    if (is_smc_number(row) && value_of(row) != row.usual) add(variable_of(row.key), value_of(row));
  }
  if (has_claim(rnic))
    add("FAIRLEAD_DEVICES_VERBS_CLAIM",
        rnic.own_claim ? std::string(kubernetes::kRnicClaimName) : rnic.claim_template);
  for (const auto& [name, value] : settings.variables) add(name, value);
  return list;
}

Json probe(const char* path, int period_seconds, int failures_max) {
  return {{"httpGet", {{"path", path}, {"port", kubernetes::kAdminPortName}}},
          {"periodSeconds", period_seconds},
          {"timeoutSeconds", kProbeTimeoutSeconds},
          {"failureThreshold", failures_max}};
}

Json security_context(const Settings& settings) {
  Json seccomp = {{"type", settings.seccomp_profile}};
  if (settings.seccomp_profile == "Localhost")
    seccomp["localhostProfile"] = kubernetes::kSeccompProfile;
  return {{"runAsNonRoot", true},
          {"runAsUser", kubernetes::kSidecarUid},
          {"runAsGroup", kubernetes::kSidecarUid},
          {"readOnlyRootFilesystem", true},
          {"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", Json::array({"ALL"})}}},
          {"seccompProfile", std::move(seccomp)}};
}

}  // namespace

std::uint16_t admin_port_of(const Settings& settings, const Wishes& wishes) {
  std::uint16_t port = settings.admin_port;
  if (const auto found = wishes.find("admin-port"); found != wishes.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), port);
  return port;
}

Json sidecar_container(const Settings& settings, const Wishes& wishes, const RnicRequest& rnic) {
  const Resources wants = resources_of(settings, wishes);
  Json container = {
      {"name", kubernetes::kSidecarName},
      {"image", wish_or(wishes, "image", settings.image)},
      {"imagePullPolicy", settings.image_pull_policy},
      {"args", Json::array({"--config", kConfigFile})},
      {"env", environment(settings, wishes, wants, rnic)},
      {"ports", Json::array({{{"name", kubernetes::kAdminPortName},
                              {"containerPort", admin_port_of(settings, wishes)},
                              {"protocol", "TCP"}}})},
      {"restartPolicy", "Always"},
      {"startupProbe", probe("/readyz", 1, kStartupSecondsMax)},
      {"livenessProbe", probe("/livez", kLivenessPeriodSeconds, kLivenessFailuresMax)},
      {"securityContext", security_context(settings)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"}};
  if (Json resources = resources_json(wants, rnic); !resources.empty())
    container["resources"] = std::move(resources);
  return container;
}

std::optional<std::string> rule_conflict(const Wishes& wishes) {
  const auto exclude = wishes.find("smc-exclude");
  const auto require = wishes.find("smc-require");
  if (exclude == wishes.end() || require == wishes.end()) return std::nullopt;
  const auto excluded = kubernetes::parse_rule_list(exclude->second);
  const auto required = kubernetes::parse_rule_list(require->second);
  if (!excluded || !required) return std::nullopt;  // has been reported
  for (const ConnectionRule& rule : *required)
    if (const ConnectionRule* const other = first_overlapping(*excluded, rule))
      return "fairlead.io/smc-require: \"" + to_string(rule) +
             "\" and fairlead.io/smc-exclude: \"" + to_string(*other) +
             "\" have connections in common; allowed: blocks or ports that only one of them has";
  return std::nullopt;
}

std::optional<std::string> resource_conflict(const Settings& settings, const Wishes& wishes) {
  const Resources wants = resources_of(settings, wishes);
  // A default request is reduced to the limit; only an explicit request can exceed it.
  const auto above = [](std::string_view what, const std::string& request,
                        const std::string& limit) {
    return "fairlead.io/proxy-" + std::string(what) + "-request: \"" + request +
           "\" is not allowed; allowed: at most the limit, which is " + limit;
  };
  const auto cpu = cpu_millis(wants.cpu_limit);
  if (cpu && cpu_millis(wants.cpu_request).value_or(0) > *cpu)
    return above("cpu", wants.cpu_request, wants.cpu_limit);
  const auto memory = memory_bytes(wants.memory_limit);
  if (memory && memory_bytes(wants.memory_request).value_or(0) > *memory)
    return above("memory", wants.memory_request, wants.memory_limit);
  return std::nullopt;
}

}  // namespace fairlead::injector
