#include "cni/node/agent/leave.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/linux/files.h"
#include "base/linux/handle.h"
#include "base/linux/stop_signals.h"
#include "base/log.h"
#include "cni/node/agent/probes.h"
#include "cni/node/cluster/node_label.h"
#include "cni/node/cluster/token_claims.h"
#include "cni/state/garbage.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";

// The folder itself may be a mount.
void clear_folder(const std::string& path) {
  std::error_code error;
  for (const std::string& name : names_in(path))
    std::filesystem::remove_all(std::filesystem::path(path) / name, error);
}

// A sentence about remaining steps; empty if there are none.
std::string try_to_leave(const LeaveSettings& settings) {
  if (const auto left = leave_node(settings.places, settings.cluster.places.cgroup_root); !left)
    return left.error().message;
  if (!settings.cluster.label) return {};
  const auto server = event::ApiServer::from_pod();
  if (!server) return server.error();
  const std::string node = identify_node(settings.cluster.node, server->token()).name;
  const auto set = set_node_labels(*server, node, false, {});
  return set ? std::string() : set.error();
}

}  // namespace

Outcome<void> leave_node(const Places& places, const std::string& cgroup_root) {
  if (auto done = remove_entries(places); !done) return done;
  const std::size_t pods = collect_all(places.run_dir, cgroup_root);
  if (auto done = remove_binaries(places); !done) return done;
  clear_folder(places.run_dir);
  LogEvent(LogLevel::kInfo, kLogger, "left").field("pods", std::uint64_t{pods});
  return {};
}

Outcome<void> leave_and_stay(const LeaveSettings& settings) {
  const sigset_t set = stop_signals();
  const FileDescriptor signals(::signalfd(-1, &set, SFD_CLOEXEC));
  std::atomic<bool> done = false;
  std::unique_ptr<Probes> probes;
  if (!settings.listen.empty()) {
    probes = SMC_TRY(Probes::start(
        settings.listen, {[&done] { return std::string(done ? "" : "the node is not left yet"); },
                          [] { return std::string(); }}));
  }
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(settings.cluster.interval);
  for (std::string told;;) {
    if (!done) {
      const std::string trouble = try_to_leave(settings);
      done = trouble.empty();
      if (!trouble.empty() && trouble != told)
        LogEvent(LogLevel::kWarn, kLogger, "not_left").field("what", trouble);
      told = trouble;
    }
    pollfd waiting{signals.get(), POLLIN, 0};
    if (::poll(&waiting, 1, done ? -1 : static_cast<int>(pause.count())) > 0) return {};
  }
}

}  // namespace fairlead::cni::node
