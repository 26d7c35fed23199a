#include "cni/node/nri/sidecar_program.h"

#include <algorithm>
#include <array>

namespace fairlead::cni::node::nri {
namespace {

// The entry point of the image, and the arguments of the injection.
constexpr std::array<std::string_view, 3> kArgs = {"/usr/local/bin/fairlead-proxy", "--config",
                                                   "/etc/fairlead/pod.yaml"};

// The loader, the C library, libibverbs and its drivers read variables with these prefixes.
constexpr std::array<std::string_view, 6> kHarmful = {"LD_",  "GLIBC_", "MALLOC_",
                                                      "IBV_", "RDMAV_", "MLX"};

// Variables of the injection, of runtimes, and of the kubelet. OpenShift sets NSS_SDB_USE_CACHE in
// every container.
constexpr std::array<std::string_view, 7> kVariables = {
    "SMC_PNET_ID", "PATH", "HOSTNAME", "HOME", "TERM", "container", "NSS_SDB_USE_CACHE"};
constexpr std::array<std::string_view, 2> kVariablePrefixes = {"FAIRLEAD_", "KUBERNETES_"};

// The image has no program, library or configuration in these folders.
constexpr std::array<std::string_view, 6> kMountRoots = {"/proc", "/dev",     "/sys",
                                                         "/run",  "/var/run", "/tmp"};
constexpr std::array<std::string_view, 4> kMountedFiles = {"/etc/hosts", "/etc/hostname",
                                                           "/etc/resolv.conf", "/etc/localtime"};
constexpr std::string_view kDeviceFolder = "/dev/infiniband";

template <std::size_t Count>
bool contains(const std::array<std::string_view, Count>& all, std::string_view text) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

template <std::size_t Count>
bool begins_with_one(const std::array<std::string_view, Count>& all, std::string_view text) {
  return std::any_of(all.begin(), all.end(),
                     [text](std::string_view one) { return text.starts_with(one); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_upper_or_digit(char c) { return (c >= 'A' && c <= 'Z') || is_digit(c); }

bool is_upper_word(std::string_view text) {
  return !text.empty() && is_upper_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_upper_or_digit(c) || c == '_'; });
}

// Removes `suffix`, if something remains before it.
bool strip(std::string_view& text, std::string_view suffix) {
  if (text.size() <= suffix.size() || !text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// NAME_PORT_80_TCP, and the same with _PROTO, _PORT or _ADDR.
bool is_link_to_port(std::string_view name) {
  for (const std::string_view part : {"_PROTO", "_PORT", "_ADDR"})
    if (strip(name, part)) break;
  if (!strip(name, "_TCP") && !strip(name, "_UDP") && !strip(name, "_SCTP")) return false;
  const std::size_t before = name.size();
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  return name.size() < before && strip(name, "_PORT_");
}

// Variables about the Services of a namespace. Source: Kubernetes, "Accessing the Service",
// "Environment Variables".
bool is_service_link(std::string_view name) {
  if (!is_upper_word(name)) return false;
  constexpr std::string_view kNamedPort = "_SERVICE_PORT_";
  const std::size_t named = name.find(kNamedPort);
  if (named != std::string_view::npos && named > 0 && named + kNamedPort.size() < name.size())
    return true;
  std::string_view rest = name;
  return strip(rest, "_SERVICE_HOST") || strip(rest, "_PORT") || is_link_to_port(name);
}

bool is_known_variable(std::string_view name, const std::vector<std::string>& more) {
  if (begins_with_one(kHarmful, name)) return false;
  return contains(kVariables, name) || begins_with_one(kVariablePrefixes, name) ||
         is_service_link(name) || std::find(more.begin(), more.end(), name) != more.end();
}

// Removes empty parts and ".". Empty if the path is relative or has "..".
std::optional<std::string> normal_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::string normal;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") normal.append("/").append(part);
  }
  return normal.empty() ? "/" : normal;
}

bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_from_node(const ContainerMount& mount) {
  return mount.type == "bind" ||
         std::any_of(mount.options.begin(), mount.options.end(), [](const std::string& option) {
           return option == "bind" || option == "rbind";
         });
}

bool is_known_mount(const ContainerMount& mount) {
  const auto path = normal_path(mount.destination);
  if (!path || is_at_or_below(*path, kDeviceFolder)) return false;
  // This would be a whole folder of the node, with its devices or processes.
  if (is_from_node(mount) && (*path == "/dev" || *path == "/proc")) return false;
  return contains(kMountedFiles, *path) ||
         std::any_of(kMountRoots.begin(), kMountRoots.end(),
                     [&path](std::string_view root) { return is_at_or_below(*path, root); });
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::optional<ProgramFinding> judge_processes(const std::vector<ContainerNamespace>& namespaces) {
  if (namespaces.empty()) return std::nullopt;
  const auto own = std::find_if(namespaces.begin(), namespaces.end(),
                                [](const ContainerNamespace& one) { return one.type == "pid"; });
  if (own == namespaces.end()) return ProgramFinding{true, "namespaces", "no pid"};
  if (!own->path.empty()) return ProgramFinding{true, "namespaces", "pid " + own->path};
  return std::nullopt;
}

}  // namespace

bool may_allow_variable(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) && !begins_with_one(kHarmful, name) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_upper_or_digit(c) || (c >= 'a' && c <= 'z') || c == '_';
         });
}

std::optional<ProgramFinding> judge_program(const ProgramFacts& program,
                                            const std::vector<std::string>& env_names) {
  if (!program.args.empty() &&
      !std::equal(program.args.begin(), program.args.end(), kArgs.begin(), kArgs.end()))
    return ProgramFinding{false, "args", joined(program.args)};
  for (const std::string& variable : program.env) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    if (!is_known_variable(name, env_names)) return ProgramFinding{false, "env", std::string(name)};
  }
  for (const ContainerMount& mount : program.mounts)
    if (!is_known_mount(mount)) return ProgramFinding{false, "mounts", mount.destination};
  if (std::find(program.groups.begin(), program.groups.end(), 0u) != program.groups.end())
    return ProgramFinding{false, "user", "group 0"};
  return judge_processes(program.namespaces);
}

}  // namespace fairlead::cni::node::nri
