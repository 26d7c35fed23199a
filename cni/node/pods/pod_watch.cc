#include "cni/node/pods/pod_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cni/state/garbage.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {
namespace {

constexpr std::uint32_t kFolderEvents = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM;

tl::unexpected<PluginError> failed(const std::string& what, int error_number) {
  return fail(Code::kState, to_string(system_error(what.c_str(), error_number)));
}

Outcome<FileDescriptor> watch_folder(const std::string& folder) {
  FileDescriptor inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify) return failed("inotify", errno);
  if (::inotify_add_watch(inotify.get(), folder.c_str(), kFolderEvents) < 0)
    return failed(folder, errno);
  return inotify;
}

WatchedPods pods_of_states(const std::string& run_dir, int inotify) {
  WatchedPods pods;
  for (const std::string& container : known_containers(run_dir)) {
    // A folder's state is written after the folder is created, and the watch is set before the
    // state is read. Setting a watch twice has no effect; it ends with the folder.
    const std::string folder = attachments_dir(run_dir) + "/" + container;
    (void)::inotify_add_watch(inotify, folder.c_str(), IN_MOVED_TO | IN_ONLYDIR);
    const auto state = peek_state(run_dir, container);
    if (state && lives(*state)) pods[container] = {state->netns, state->identity};
  }
  return pods;
}

// A file that is not a namespace yet has no identity: entering it fails, and the broker looks
// again. A namespace with several names is one pod.
WatchedPods pods_of_namespaces(const std::string& folder) {
  WatchedPods pods;
  const auto add = [&pods](const std::string& path) {
    const auto netns = Netns::open(path);
    const WatchedPod pod{path, netns ? netns->identity() : NetnsIdentity{}};
    const auto is_same = [&pod](const auto& other) {
      return other.second.identity == pod.identity;
    };
    if (!netns || std::none_of(pods.begin(), pods.end(), is_same)) pods[path] = pod;
  };
  add("/proc/self/ns/net");
  if (folder.empty()) return pods;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed); !failed && at != end(at);
       at.increment(failed))
    add(at->path().string());
  return pods;
}

}  // namespace

Outcome<PodWatch> PodWatch::of_states(const std::string& run_dir) {
  const std::string all = attachments_dir(run_dir);
  if (::mkdir(all.c_str(), 0700) != 0 && errno != EEXIST) return failed(all, errno);
  return PodWatch(SMC_TRY(watch_folder(all)),
                  [run_dir](int inotify) { return pods_of_states(run_dir, inotify); });
}

Outcome<PodWatch> PodWatch::of_namespaces(const std::string& folder) {
  FileDescriptor inotify;
  if (!folder.empty()) inotify = SMC_TRY(watch_folder(folder));
  return PodWatch(std::move(inotify), [folder](int) { return pods_of_namespaces(folder); });
}

// Only the occurrence of an event is used, not its content, which may be outdated.
const WatchedPods& PodWatch::look() {
  std::array<char, 4096> events;
  while (inotify_ && ::read(inotify_.get(), events.data(), events.size()) > 0) continue;
  return pods_ = read_(inotify_.get());
}

}  // namespace fairlead::cni::node
