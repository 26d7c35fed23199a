// Where a runtime passes no annotations, the node side knows them: a question over its socket.
//
// Over <runDir>/agent.sock, SOCK_SEQPACKET, one message each way:
//   {"ask":"annotations","namespace":"default","pod":"web-0","uid":"..."}
//   {"annotations":{"fairlead.io/inject":"enabled", ...}}   or   {"error":"..."}
#pragma once

#include <optional>
#include <string>

#include "cni/request.h"

namespace fairlead::cni {

inline constexpr const char* kAgentSocketName = "agent.sock";
inline constexpr int kAgentMillisecondsMax = 500;
inline constexpr std::size_t kAgentMessageBytesMax = 512 * 1024;  // annotations are 256 KiB at most

// Nothing when nobody answers in time, or does not know.
std::optional<StringMap> ask_agent(const std::string& run_dir, const Request& request);

}  // namespace fairlead::cni
