#include "cni/node/pods/pod_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "cni/state/garbage.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {
namespace {

constexpr std::uint32_t kFolderEvents = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM;

tl::unexpected<PluginError> failed(const std::string& what, int error_number) {
  return fail(Code::kState, to_string(system_error(what.c_str(), error_number)));
}

}  // namespace

Outcome<PodWatch> PodWatch::open(const std::string& run_dir) {
  const std::string all = attachments_dir(run_dir);
  if (::mkdir(all.c_str(), 0700) != 0 && errno != EEXIST) return failed(all, errno);
  FileDescriptor inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify) return failed("inotify", errno);
  if (::inotify_add_watch(inotify.get(), all.c_str(), kFolderEvents) < 0) return failed(all, errno);
  return PodWatch(run_dir, std::move(inotify));
}

// Only the occurrence of an event is used, not its content, which may be outdated.
const WatchedPods& PodWatch::look() {
  std::array<char, 4096> events;
  while (::read(inotify_.get(), events.data(), events.size()) > 0) continue;
  pods_.clear();
  for (const std::string& container : known_containers(run_dir_)) {
    // A folder's state is written after the folder is created, and the watch is set before the
    // state is read. Setting a watch twice has no effect; it ends with the folder.
    const std::string folder = attachments_dir(run_dir_) + "/" + container;
    (void)::inotify_add_watch(inotify_.get(), folder.c_str(), IN_MOVED_TO | IN_ONLYDIR);
    const auto state = peek_state(run_dir_, container);
    if (state && lives(*state)) pods_[container] = {state->netns, state->identity};
  }
  return pods_;
}

}  // namespace fairlead::cni::node
