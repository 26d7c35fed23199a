#include "ctl/local_checks.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "base/linux/files.h"
#include "base/linux/handle.h"
#include "ctl/table.h"

namespace fairlead::ctl {
namespace {

using Status = Check::Status;

// With less, buffers of the default size run out before a few hundred connections.
constexpr std::uint64_t kMemlockBytesWanted = 256ULL << 20;
constexpr std::uint64_t kDescriptorsPerConnection = 2;
constexpr std::uint64_t kConnectionsWanted = 10'000;  // default of limits.connections
// The first kernel whose sockops programs can write TCP options.
constexpr unsigned kKernelMajorNeeded = 5;
constexpr unsigned kKernelMinorNeeded = 10;

constexpr std::size_t kProcFileBytesMax = 64 << 20;  // lists of sockets may be long

std::string text_of(const std::string& path) {
  return read_file(path, kProcFileBytesMax).value_or("");
}

std::uint64_t limit_of(decltype(RLIMIT_NOFILE) resource, rlim_t rlimit::*kind) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.*kind == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max() : limit.*kind;
}

std::vector<std::string> verbs_devices_in(const std::string& folder) {
  std::vector<std::string> names;
  const Handle<DIR, closedir> open(opendir(folder.c_str()));
  while (open) {
    const dirent* entry = readdir(open.get());
    if (entry == nullptr) break;
    if (std::strncmp(entry->d_name, "uverbs", 6) == 0) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool has(const HostFacts& host, unsigned capability) {
  return (host.effective_capabilities >> capability & 1U) != 0;
}

Check check_kernel(const HostFacts& host) {
  unsigned major = 0;
  unsigned minor = 0;
  const char* text = host.kernel_release.data();
  const char* end = text + host.kernel_release.size();
  const auto [dot, error] = std::from_chars(text, end, major);
  if (error != std::errc{} || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, minor).ec != std::errc{})
    return {"kernel", Status::kWarn, "cannot read the version in \"" + host.kernel_release + "\"",
            "Linux 5.10 or newer is needed"};
  if (major < kKernelMajorNeeded || (major == kKernelMajorNeeded && minor < kKernelMinorNeeded))
    return {"kernel", Status::kFail, "Linux " + host.kernel_release,
            "5.10 or newer is needed: older kernels cannot write the SMC option"};
  return {"kernel", Status::kOk, "Linux " + host.kernel_release, ""};
}

Check check_descriptors(const HostFacts& host) {
  const std::uint64_t connections = host.descriptors_max / kDescriptorsPerConnection;
  if (host.descriptors_max == std::numeric_limits<std::uint64_t>::max())
    return {"nofile", Status::kOk, "no limit", ""};
  std::string finding = std::to_string(host.descriptors_max) + ", enough for about " +
                        std::to_string(connections) + " connections";
  if (connections >= kConnectionsWanted) return {"nofile", Status::kOk, std::move(finding), ""};
  return {"nofile", Status::kWarn, std::move(finding),
          "raise RLIMIT_NOFILE of the container runtime, or lower limits.connections"};
}

Check check_verbs_devices(const HostFacts& host, const ProxyFacts& proxy) {
  std::string names;
  for (const std::string& name : host.verbs_devices) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) return {"infiniband", Status::kOk, names, ""};
  if (!proxy.uses_verbs)
    return {"infiniband", Status::kOk, "no RDMA device, and none is configured", ""};
  return {"infiniband", Status::kWarn, "no RDMA device in this container",
          "request the RDMA device resource for the container; within a node SMC-R works without"};
}

Check check_memlock(const HostFacts& host, const ProxyFacts& proxy) {
  if (host.memlock_bytes == std::numeric_limits<std::uint64_t>::max())
    return {"memlock", Status::kOk, "no limit", ""};
  std::string finding = bytes_text(host.memlock_bytes) + " bytes";
  if (has(host, CAP_IPC_LOCK))
    return {"memlock", Status::kOk, finding + ", but CAP_IPC_LOCK lifts it", ""};
  if (!proxy.uses_verbs || host.verbs_devices.empty())
    return {"memlock", Status::kOk, finding + "; matters only with an RDMA device", ""};
  if (host.memlock_bytes >= kMemlockBytesWanted) return {"memlock", Status::kOk, finding, ""};
  return {"memlock", Status::kWarn, finding,
          "raise RLIMIT_MEMLOCK of the container runtime, or lower memory.limit to fit"};
}

Check check_bpf(const HostFacts& host, const ProxyFacts& proxy) {
  if (proxy.option_program_ok)
    return {"bpf", Status::kOk, "the option program is attached, see option_program", ""};
  if (host.cgroup2_mount.empty())
    return {"bpf", Status::kWarn, "no cgroup2 is mounted here",
            "let the node side attach the option program, or list peers in smc.assume"};
  const bool is_permitted =
      has(host, CAP_SYS_ADMIN) || (has(host, CAP_BPF) && has(host, CAP_NET_ADMIN));
  if (!is_permitted)
    return {"bpf", Status::kWarn,
            "cgroup2 at " + host.cgroup2_mount + ", but eBPF is not permitted",
            "let the node side attach the option program, grant CAP_BPF and CAP_NET_ADMIN, or list "
            "peers in smc.assume"};
  return {"bpf", Status::kOk, "cgroup2 at " + host.cgroup2_mount + ", eBPF permitted", ""};
}

// FairleadRedirectMissing, as far as it shows in the pod. Nothing without a redirect.
std::optional<Check> check_bypass(const HostFacts& host, const ProxyFacts& proxy) {
  if (proxy.redirect_ports.empty()) return std::nullopt;
  const std::vector<std::string> past = connections_past(host.sockets, proxy.user);
  const std::string those =
      past.empty() ? "none goes past the proxy"
                   : std::to_string(past.size()) + " go past the proxy, as " + past.front();
  if (proxy.redirected != 0)
    return Check{"bypass", Status::kOk,
                 past.empty() ? those : those + ": excluded, or older than the redirect", ""};
  const std::string finding = "no connection has come by the redirect, and " + those;
  if (past.empty()) return Check{"bypass", Status::kOk, finding, ""};
  return Check{"bypass", Status::kWarn, finding,
               "docs/alerts.md, FairleadRedirectMissing; or all of them are excluded"};
}

}  // namespace

HostFacts read_host_facts(const HostPaths& paths) {
  HostFacts facts;
  facts.memlock_bytes = limit_of(RLIMIT_MEMLOCK, &rlimit::rlim_cur);
  // The proxy raises its own to that.
  facts.descriptors_max = limit_of(RLIMIT_NOFILE, &rlimit::rlim_max);
  facts.verbs_devices = verbs_devices_in(paths.infiniband);
  facts.cgroup2_mount = parse_cgroup2_mount(text_of(paths.mounts));
  facts.effective_capabilities = parse_effective_capabilities(text_of(paths.status));
  facts.sockets = parse_sockets(text_of(paths.sockets));
  for (SocketLine& socket : parse_sockets(text_of(paths.sockets6)))
    facts.sockets.push_back(std::move(socket));
  utsname name{};
  if (uname(&name) == 0) facts.kernel_release = name.release;
  return facts;
}

std::vector<Check> local_checks(const HostFacts& host, const ProxyFacts& proxy) {
  std::vector<Check> checks = {check_kernel(host), check_descriptors(host),
                               check_verbs_devices(host, proxy), check_memlock(host, proxy),
                               check_bpf(host, proxy)};
  if (std::optional<Check> bypass = check_bypass(host, proxy)) checks.push_back(std::move(*bypass));
  return checks;
}

std::uint64_t parse_effective_capabilities(const std::string& status) {
  constexpr std::string_view kKey = "CapEff:\t";
  const std::size_t at = status.find(kKey);
  if (at == std::string::npos) return 0;
  std::uint64_t bits = 0;
  std::from_chars(status.data() + at + kKey.size(), status.data() + status.size(), bits, 16);
  return bits;
}

std::string parse_cgroup2_mount(const std::string& mounts) {
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string source;
    std::string mount_point;
    std::string type;
    if (fields >> source >> mount_point >> type && type == "cgroup2") return mount_point;
  }
  return "";
}

}  // namespace fairlead::ctl
