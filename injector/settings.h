// Settings of an installation for all its pods; an annotation overrides its setting. The chart
// writes them as JSON, the injector reads them from its --settings file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/kubernetes_names.h"
#include "base/pod_settings.h"
#include "base/result.h"

namespace fairlead::injector {

inline constexpr std::size_t kExtraVariablesMax = 64;

// True for a member of "smc".
constexpr bool is_smc_number(const PodSetting& row) {
  return row.is_number() && row.value.starts_with("smc.");
}

// One of the words of a row, which the chart can give by PodSetting::value.
constexpr bool is_choice_of_pods(const PodSetting& row) {
  return !row.is_number() && !row.value.empty() && !row.annotation.empty();
}

struct Settings {
  std::string version = FAIRLEAD_VERSION;          // "version": in the status annotation
  std::string revision = "default";                // "revision": name of the installation
  std::string image;                               // "image": required
  std::string image_pull_policy = "IfNotPresent";  // "imagePullPolicy": Always, IfNotPresent, Never
  // "concurrency": workers of a sidecar without a CPU limit, 1 to 64. Without this setting a proxy
  // would use a worker for every second CPU of the node.
  unsigned concurrency = 1;
  std::uint16_t admin_port = kubernetes::kAdminPort;  // "adminPort"
  std::string client_address = "enabled";             // "clientAddress"
  std::string shared_memory = "disabled";             // "sharedMemory"
  std::string grace_period = "30s";                   // "shutdownGracePeriod"
  // "seccompProfile": RuntimeDefault, or Localhost for the file that fairlead-node installs
  std::string seccomp_profile = "RuntimeDefault";
  std::string cpu_request = "50m";      // "cpuRequest"; "" for none
  std::string memory_request = "64Mi";  // "memoryRequest"; "" for none
  std::string cpu_limit;                // "cpuLimit"; "" for none
  std::string memory_limit;             // "memoryLimit"; "" for none
  std::string rnic_resource;            // "rnicResource"; "" for none
  // "rnicClaimTemplate": a ResourceClaimTemplate; "" for none. Not together with rnicResource.
  std::string rnic_claim_template;
  // "memlock": bytes of locked memory, as an annotation for the NRI plugin ulimit-adjuster; "" for
  // none.
  std::string memlock;
  std::string pnet_id;  // "pnetId"; "" lets the node decide
  // "fallback": allow, "smc": {trafficClass: 106, ...} and so on: the choices and numbers of
  // base/pod_settings.h, numbers in digits, by PodSetting::value. Absent: the proxy's default.
  std::map<std::string, std::string, std::less<>> rows;
  std::vector<std::pair<std::string, std::string>> variables;  // "env": [{name, value}]
};

// Error: a sentence that names the field, its value and what is allowed. Unknown fields are errors.
Result<Settings, std::string> parse_settings(std::string_view json);

}  // namespace fairlead::injector
