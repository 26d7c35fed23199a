#include "cni/plugin/pod_cgroup.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/linux/files.h"
#include "bpf/cgroup_path.h"

namespace fairlead::cni {
namespace {

constexpr std::string_view kSlice = ".slice";
constexpr int kCgroupDepthMax = 4;

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

bool is_cgroup2(const std::string& path) {
  struct statfs where {};
  return ::statfs(path.c_str(), &where) == 0 && where.f_type == CGROUP2_SUPER_MAGIC;
}

// Searches for the pod's directory below those of the kubelet.
class Search {
 public:
  explicit Search(std::string_view uid) : plain_("pod" + std::string(uid)), slice_(plain_) {
    std::replace(slice_.begin(), slice_.end(), '-', '_');
    slice_ += ".slice";
  }

  std::optional<std::filesystem::path> below(const std::filesystem::path& folder, int depth) {
    std::error_code ignored;
    for (const std::string& name : names_in(folder)) {
      if (++looked_at_ > kCgroupsLookedAtMax) return std::nullopt;
      const std::filesystem::path path = folder / name;
      if (!std::filesystem::is_directory(path, ignored)) continue;
      if (name == plain_ || name.ends_with("-" + slice_)) return path;
      const bool kubelets = depth > 0 || name.find("kube") != std::string::npos;
      const bool other_pod = name.starts_with("pod") || name.find("-pod") != std::string::npos;
      if (!kubelets || other_pod || depth >= kCgroupDepthMax) continue;
      if (auto found = below(path, depth + 1)) return found;
    }
    return std::nullopt;
  }

 private:
  std::string plain_;
  std::string slice_;
  std::size_t looked_at_ = 0;
};

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

Result<std::string> find_pod_cgroup(const std::string& root, std::string_view uid) {
  const std::string base = is_cgroup2(root) ? root : root + "/unified";
  if (!is_cgroup2(base)) return Error{Errc::kNotFound, "cgroup version 2 hierarchy"};
  const auto found = Search(uid).below(base, 0);
  if (!found) return Error{Errc::kNotFound, "cgroup of the pod in the version 2 hierarchy"};
  return found->string();
}

bool has_cgroup2(const std::string& root) {
  return is_cgroup2(root) || is_cgroup2(root + "/unified");
}

}  // namespace fairlead::cni
