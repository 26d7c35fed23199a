#include "cni/pod_cgroup.h"

#include <sys/stat.h>

#include "bpf/cgroup_path.h"

namespace fairlead::cni {
namespace {

constexpr std::string_view kSlice = ".slice";

// systemd.slice(5): "a-b.slice" is a child of "a.slice".
std::string expanded_slice(std::string_view name) {
  std::string path;
  const std::string_view stem = name.substr(0, name.size() - kSlice.size());
  for (std::size_t dash = stem.find('-'); dash != std::string_view::npos;
       dash = stem.find('-', dash + 1))
    path += "/" + std::string(stem.substr(0, dash)) + std::string(kSlice);
  return path + "/" + std::string(name);
}

bool leads_out(std::string_view path) {
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    if (path.substr(start, end - start) == "..") return true;
    start = end + 1;
  }
  return path.find('\0') != std::string_view::npos;
}

}  // namespace

Result<std::string> pod_cgroup(std::string_view cgroup_path, std::string_view mountinfo) {
  if (cgroup_path.empty() || cgroup_path == "/")
    return Error{Errc::kNotFound, "the runtime names no cgroup of the pod"};
  if (leads_out(cgroup_path)) return Error{Errc::kMalformed, "runtimeConfig.cgroupPath"};
  std::string path(cgroup_path);
  if (path.find('/') == std::string::npos && path.ends_with(kSlice)) path = expanded_slice(path);
  if (path.front() != '/') path.insert(0, "/");
  // A process in cgroup `path` would find its directory in the same way.
  return bpf::own_cgroup_path("0::" + path, mountinfo);
}

Result<std::string> pod_cgroup(std::string_view cgroup_path) {
  const std::string mountinfo = SMC_TRY(bpf::read_mountinfo());
  std::string path = SMC_TRY(pod_cgroup(cgroup_path, mountinfo));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return Error{Errc::kNotFound, "cgroup of the pod in the version 2 hierarchy"};
  return path;
}

}  // namespace fairlead::cni
