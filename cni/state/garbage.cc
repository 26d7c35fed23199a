#include "cni/state/garbage.h"

#include <unistd.h>

#include "cni/plugin/pod_setup.h"
#include "cni/redirect/netns.h"
#include "cni/state/state.h"

namespace fairlead::cni {
namespace {

constexpr std::string_view kNodeCgroups = "/sys/fs/cgroup";

}  // namespace

bool lives(const AttachmentState& state) {
  const auto netns = Netns::open(state.netns);
  if (netns) return netns->identity() == state.identity;
  if (netns.error().code != Errc::kNotFound && netns.error().code != Errc::kMalformed) return true;
  // In a container without the mount of /run/netns, all pods would seem to have ended.
  const std::string folder = state.netns.substr(0, state.netns.rfind('/') + 1);
  return ::access(folder.c_str(), F_OK) != 0;
}

std::string cgroup_seen_at(const std::string& path, const std::string& cgroup_root) {
  if (!path.starts_with(kNodeCgroups)) return path;
  return cgroup_root + path.substr(kNodeCgroups.size());
}

GarbageCount collect_dead(const std::string& run_dir) {
  bpf::remove_dead_pins();
  GarbageCount count;
  for (const std::string& id : known_containers(run_dir)) {
    auto container = ContainerState::open(run_dir, id, false);
    if (!container || !*container) continue;
    for (const std::string& ifname : (*container)->interfaces()) {
      // An ADD in progress holds the lock, so this state belongs to an ADD that finished or was
      // interrupted.
      const auto state = (*container)->load(ifname);
      if (!state) continue;
      if (lives(*state)) {
        ++count.kept;
        continue;
      }
      undo_pod(*state);
      (*container)->remove(ifname);
      ++count.collected;
    }
  }
  return count;
}

std::size_t collect_all(const std::string& run_dir, const std::string& cgroup_root) {
  std::size_t count = 0;
  for (const std::string& id : known_containers(run_dir)) {
    auto container = ContainerState::open(run_dir, id, false);
    if (!container || !*container) continue;
    for (const std::string& ifname : (*container)->interfaces()) {
      if (auto state = (*container)->load(ifname)) {
        for (std::string* cgroup :
             {&state->option_cgroup, &state->client_address_cgroup, &state->redirect_cgroup})
          *cgroup = cgroup_seen_at(*cgroup, cgroup_root);
        undo_pod(*state);
      }
      (*container)->remove(ifname);
      ++count;
    }
  }
  return count;
}

}  // namespace fairlead::cni
