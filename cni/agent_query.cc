#include "cni/agent_query.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "base/handle.h"
#include "base/unix_address.h"

namespace fairlead::cni {
namespace {

FileDescriptor connect_to(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return {};
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  // connect(2) too waits no longer than this, when the listener's queue is full.
  const timeval limit = {0, kAgentMillisecondsMax * 1000};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return {};
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return {};
  return socket;
}

}  // namespace

std::optional<StringMap> ask_agent(const std::string& run_dir, const Request& request) {
  const std::string pod = request.argument("K8S_POD_NAME");
  if (pod.empty()) return std::nullopt;
  const FileDescriptor socket = connect_to(run_dir + "/" + kAgentSocketName);
  if (!socket) return std::nullopt;
  const std::string question = to_text(Json{{"ask", "annotations"},
                                            {"namespace", request.argument("K8S_POD_NAMESPACE")},
                                            {"pod", pod},
                                            {"uid", request.argument("K8S_POD_UID")}});
  if (::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
  std::string answer(kAgentMessageBytesMax, '\0');
  const ssize_t count = ::recv(socket.get(), answer.data(), answer.size(), 0);
  if (count <= 0) return std::nullopt;
  answer.resize(static_cast<std::size_t>(count));
  const auto json = parse_json(answer);
  if (!json || !json->is_object()) return std::nullopt;
  const auto found = json->find("annotations");
  if (found == json->end() || !found->is_object()) return std::nullopt;
  StringMap annotations;
  for (const auto& [key, value] : found->items())
    if (value.is_string()) annotations.emplace(key, value.get<std::string>());
  return annotations;
}

}  // namespace fairlead::cni
