#include "cni/plugin/agent_query.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

#include "base/linux/handle.h"
#include "base/linux/peer_credentials.h"
#include "base/linux/record_socket.h"
#include "base/linux/unix_address.h"
#include "base/result.h"

namespace fairlead::cni {
namespace {

FileDescriptor connect_to(const std::string& path) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return {};
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  // Also limits connect(2), which waits while the listener's queue is full.
  const timeval limit = {0, kAgentMillisecondsMax * 1000};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return {};
  refuse_descriptors(socket.get());
  if (::connect(socket.get(), address->data(), address->size()) != 0) return {};
  // Another user's process is not the node side, whatever it answers.
  if (!is_peer_root_or_ours(socket.get())) return {};
  return socket;
}

}  // namespace

std::string to_json_text(const PodQuestion& question) {
  return to_text(Json{{"ask", "annotations"},
                      {"namespace", question.name_space},
                      {"pod", question.pod},
                      {"uid", question.uid}});
}

Result<PodQuestion, std::string> parse_question(std::string_view text) {
  const auto json = SMC_TRY(parse_json(text));
  if (text_of(member(json, "ask")) != "annotations")
    return tl::unexpected(shown(member(json, "ask")) + " is nothing that is answered");
  PodQuestion question{text_of(member(json, "namespace")), text_of(member(json, "pod")),
                       text_of(member(json, "uid"))};
  if (question.name_space.empty() || question.pod.empty())
    return tl::unexpected(std::string("no namespace, or no pod"));
  return question;
}

std::optional<PodAnswer> ask_agent(const std::string& run_dir, const Request& request) {
  const PodQuestion question{request.argument("K8S_POD_NAMESPACE"),
                             request.argument("K8S_POD_NAME"), request.argument("K8S_POD_UID")};
  if (question.pod.empty()) return std::nullopt;
  const FileDescriptor socket = connect_to(run_dir + "/" + kAgentSocketName);
  if (!socket) return std::nullopt;
  const std::string text = to_json_text(question);
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
  std::string answer(kAgentMessageBytesMax, '\0');
  const ssize_t count = ::recv(socket.get(), answer.data(), answer.size(), 0);
  if (count <= 0) return std::nullopt;
  answer.resize(static_cast<std::size_t>(count));
  const auto json = parse_json(answer);
  if (!json) return std::nullopt;
  if (member(*json, "unread") == true) return PodAnswer{{}, "", text_of(member(*json, "error"))};
  const Json& annotations = member(*json, "annotations");
  if (!annotations.is_object()) return std::nullopt;
  return PodAnswer{strings_of(annotations), text_of(member(*json, "cgroup"))};
}

}  // namespace fairlead::cni
