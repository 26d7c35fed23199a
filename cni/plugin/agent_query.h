// Query of the plugin to the node side for the annotations of a pod. Used if the runtime passes
// none.
//
// Over <runDir>/agent.sock, SOCK_SEQPACKET, one message each way:
//   {"ask":"annotations","namespace":"default","pod":"web-0","uid":"..."}
//   {"annotations":{"fairlead.io/inject":"enabled", ...},"cgroup":"/kubepods/..."}   or
//   {"error":"..."}                 or
//   {"error":"...","unread":true}   for a pod whose annotations exceed a limit
// The uid may be empty, and "cgroup", a path below the root of the hierarchy, may be missing. A
// runtime that passes no annotations passes no cgroup either.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cni/plugin/request.h"

namespace fairlead::cni {

inline constexpr const char* kAgentSocketName = "agent.sock";
inline constexpr int kAgentMillisecondsMax = 500;
inline constexpr std::size_t kAgentMessageBytesMax = 512 * 1024;  // annotations are 256 KiB at most

struct PodQuestion {
  std::string name_space, pod, uid;
};
std::string to_json_text(const PodQuestion& question);
// The error is a sentence.
Result<PodQuestion, std::string> parse_question(std::string_view text);

struct PodAnswer {
  StringMap annotations;
  std::string cgroup_path;  // as runtimeConfig.cgroupPath; may be empty
  // Why the annotations of this pod cannot be read: a sentence. Then nothing else is known.
  std::string unread{};
};

// Nothing without an answer in time, or if the node side does not know the pod.
std::optional<PodAnswer> ask_agent(const std::string& run_dir, const Request& request);

}  // namespace fairlead::cni
