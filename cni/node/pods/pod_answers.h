// Server of cni/plugin/agent_query.h on the node side. If a runtime, or Multus, passes no
// annotations, the plugin requests them here while the pod waits. A pod without an answer in time
// is repaired once it runs.
//
// One thread, which waits for the API server. It handles one question at a time and drops questions
// of plugins that have given up.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/linux/service_thread.h"
#include "base/linux/unix_listener.h"
#include "base/paced_lines.h"
#include "base/result.h"
#include "cni/node/pods/node_pods.h"
#include "cni/plugin/agent_query.h"
#include "cni/plugin/plugin_error.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

class PodAnswers {
 public:
  // Listens in `run_dir`, at a socket that root alone can open. `cgroup_root` is where this process
  // sees the node's cgroups.
  static Outcome<std::unique_ptr<PodAnswers>> start(const std::string& run_dir,
                                                    std::string cgroup_root,
                                                    event::ApiServer server);
  ~PodAnswers();

 private:
  PodAnswers(std::string path, std::string cgroup_root, event::ApiServer server,
             UnixListener listener);
  void run();
  void answer_one(int socket);
  std::string answer_to(const std::string& question);

  const std::string path_;
  const std::string cgroup_root_;
  const event::ApiServer server_;
  UnixListener listener_;
  PacedLines lines_;  // of the thread
  ServiceThread thread_;
};

// The answer: from the pod as the API server lists it, or the reason why it is unknown, and from
// its cgroup below the hierarchy's root, which may be empty. Pure.
std::string answer_about(const PodQuestion& question, const Result<NodePod, std::string>& pod,
                         std::string_view cgroup_path);

}  // namespace fairlead::cni::node
