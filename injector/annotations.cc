#include "injector/annotations.h"

#include <algorithm>
#include <array>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "injector/annotation_values.h"

namespace fairlead::injector {
namespace {

using R = Reader;
using kubernetes::NodeAnnotation;

// An annotation that the CNI plugin checks too.
constexpr AnnotationInfo shared(NodeAnnotation annotation, Reader reader,
                                bool (*is_allowed)(std::string_view)) {
  const kubernetes::NodeAnnotationInfo& info = kubernetes::info_of(annotation);
  return {info.name, reader, info.allowed, info.meaning, info.example, is_allowed};
}

constexpr AnnotationInfo of_setting(const PodSetting& row) {
  return {row.annotation, R::kSidecar, "", row.meaning, row.example, nullptr, &row};
}

constexpr std::string_view kCpu = "a CPU quantity above 0, as in 50m or 0.5";
constexpr std::string_view kMemory = "a whole number with Ki, Mi or Gi, as in 64Mi";
constexpr std::string_view kRules =
    "1 to 64 rules between commas: a block of addresses, ports, or both, as in 10.0.0.0/8 port "
    "5432 "
    "6432,port 22";
constexpr std::string_view kMemoryLimit = "a whole number with Ki, Mi or Gi, from 32Mi to 2048Gi";

constexpr std::array kFirst = {
    AnnotationInfo{"inject", R::kInjector, "enabled or disabled",
                   "Whether the pod gets the sidecar. Wins over the label of the namespace.",
                   "enabled", is_enabled_or_disabled},
    AnnotationInfo{"allow-mesh", R::kInjector, "true or false",
                   "Inject beside the sidecar of a service mesh too; otherwise such a pod is "
                   "left alone.",
                   "true", is_boolean},
    AnnotationInfo{"image", R::kInjector, "an image reference of at most 255 characters",
                   "Image of the sidecar of this pod.", "registry.example/fairlead:0.1.0",
                   is_image},
    AnnotationInfo{"rnic-resource", R::kInjector,
                   "none, or the name of an extended resource, as in rdma/hca_shared",
                   "The resource by which the sidecar asks for an RDMA device.", "rdma/hca_shared",
                   is_rnic_resource},
    AnnotationInfo{"rnic-claim-template", R::kInjector,
                   "none, or the name of a ResourceClaimTemplate, as in rdma-nic",
                   "The template of the claim by which the sidecar asks for an RDMA device.",
                   "rdma-nic", is_rnic_claim_template},
    AnnotationInfo{"proxy-cpu-request", R::kInjector, kCpu, "CPU request of the sidecar.", "100m",
                   is_cpu},
    AnnotationInfo{"proxy-cpu-limit", R::kInjector, kCpu,
                   "CPU limit of the sidecar; it then runs as many workers as that is CPUs.", "2",
                   is_cpu},
    AnnotationInfo{"proxy-memory-request", R::kInjector, kMemory, "Memory request of the sidecar.",
                   "128Mi", is_memory},
    AnnotationInfo{"proxy-memory-limit", R::kInjector, kMemoryLimit,
                   "Memory limit of the sidecar; half of it becomes memory.limit.", "512Mi",
                   is_memory_limit},
    AnnotationInfo{"admin-port", R::kSidecar, "a port from 1024 to 65535, not 4540 and not 4543",
                   "Port of metrics and probes.", "4590", is_admin_port},
    of_setting(pod_setting("fallback")),
    AnnotationInfo{"smc-exclude", R::kSidecar, kRules,
                   "Connections that are never tried as SMC-R, by peer and port of the server.",
                   "10.8.0.0/16,port 22", is_rule_list},
    AnnotationInfo{
        "smc-require", R::kSidecar, kRules,
        "Connections that have to be SMC-R: those that cannot are reset, with the reason "
        "in the log. None may be in smc-exclude too.",
        "10.42.0.0/16 port 5432", is_rule_list},
    of_setting(pod_setting("log.level")),
    of_setting(pod_setting("log.format")),
    shared(NodeAnnotation::kPnetId, R::kSidecar, is_pnet_id),
    shared(NodeAnnotation::kClientAddress, R::kSidecar, is_enabled_or_disabled),
    AnnotationInfo{"shared-memory", R::kSidecar, "enabled or disabled",
                   "Whether shared memory carries connections between pods of one node.", "enabled",
                   is_enabled_or_disabled},
    AnnotationInfo{"buffer-size", R::kSidecar,
                   "16KiB, 32KiB, 64KiB and so on, doubling up to 512MiB",
                   "Receive buffer of a connection.", "1MiB", is_buffer_size},
    of_setting(pod_setting("smc.max_connections_per_group")),
    of_setting(pod_setting("smc.max_links")),
    of_setting(pod_setting("smc.defer_bytes")),
};

constexpr std::array kLast = {
    AnnotationInfo{"shutdown-grace-period", R::kSidecar,
                   "a whole number with s or m, at most 3600s or 60m",
                   "How long open connections may go on after the application has ended.", "30s",
                   is_grace_period},
    shared(NodeAnnotation::kSkipInboundPorts, R::kNode, is_port_list),
    shared(NodeAnnotation::kSkipOutboundPorts, R::kNode, is_port_list),
    shared(NodeAnnotation::kSkipSubnets, R::kNode, is_cidr_list),
    shared(NodeAnnotation::kIncludeInboundPorts, R::kNode, is_port_list),
    shared(NodeAnnotation::kIncludeCidrs, R::kNode, is_cidr_list),
    shared(NodeAnnotation::kRnicAccess, R::kNode, is_rnic_access),
};

constexpr bool is_between_them(const PodSetting& row) {
  return !row.annotation.empty() &&
         std::none_of(kFirst.begin(), kFirst.end(),
                      [&row](const AnnotationInfo& info) { return info.row == &row; });
}

constexpr std::size_t kBetween =
    std::count_if(kPodSettings.begin(), kPodSettings.end(), is_between_them);

constexpr auto kTable = [] {
  std::array<AnnotationInfo, kFirst.size() + kBetween + kLast.size()> table;
  auto end = std::copy(kFirst.begin(), kFirst.end(), table.begin());
  for (const PodSetting& row : kPodSettings)
    if (is_between_them(row)) *end++ = of_setting(row);
  std::copy(kLast.begin(), kLast.end(), end);
  return table;
}();

constexpr std::size_t kShownCharsMax = 64;
constexpr std::size_t kSlipLettersMax = 2;

// Control characters and non-ASCII bytes in a value could change the terminal that shows it.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownCharsMax)) out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kShownCharsMax) out += "...";
  return out;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string unknown_key(std::string_view name) {
  std::string text = std::string(kubernetes::kAnnotationPrefix) + shown(name) +
                     " is no annotation of Fairlead and has no effect";
  if (name.size() > kShownCharsMax) return text;
  const auto nearest = std::min_element(kTable.begin(), kTable.end(),
                                        [name](const AnnotationInfo& a, const AnnotationInfo& b) {
                                          return distance(name, a.name) < distance(name, b.name);
                                        });
  if (distance(name, nearest->name) <= kSlipLettersMax)
    text += "; did you mean " + std::string(kubernetes::kAnnotationPrefix) +
            std::string(nearest->name) + "?";
  return text;
}

}  // namespace

std::span<const AnnotationInfo> annotation_table() { return kTable; }

const AnnotationInfo* find_annotation(std::string_view name) {
  const auto* found =
      std::find_if(kTable.begin(), kTable.end(),
                   [name](const AnnotationInfo& info) { return info.name == name; });
  return found == kTable.end() ? nullptr : found;
}

std::string not_quoted(std::string_view key, std::string_view value) {
  return shown(key) + ": " + shown(value) + " is no text; put it in quotes";
}

AnnotationReport read_annotations(
    const std::map<std::string, std::string, std::less<>>& annotations) {
  AnnotationReport report;
  for (auto at = annotations.lower_bound(kubernetes::kAnnotationPrefix);
       at != annotations.end() && at->first.starts_with(kubernetes::kAnnotationPrefix); ++at) {
    if (at->first == kubernetes::kStatusKey) continue;
    const std::string_view name =
        std::string_view(at->first).substr(kubernetes::kAnnotationPrefix.size());
    const AnnotationInfo* info = find_annotation(name);
    if (info == nullptr) {
      if (report.warnings.size() < kFindingsMax) report.warnings.push_back(unknown_key(name));
    } else if (!info->is_allowed(at->second)) {
      if (report.errors.size() < kFindingsMax)
        report.errors.push_back(at->first + ": \"" + shown(at->second) +
                                "\" is not allowed; allowed: " + info->allowed());
    } else {
      report.wishes.emplace(name, at->second);
    }
  }
  return report;
}

}  // namespace fairlead::injector
