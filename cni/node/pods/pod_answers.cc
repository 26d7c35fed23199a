#include "cni/node/pods/pod_answers.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/linux/wait.h"
#include "base/result.h"
#include "cni/node/pods/node_pods.h"
#include "cni/plugin/pod_cgroup.h"
#include "event/http/http_status.h"

namespace fairlead::cni::node {
namespace {

constexpr int kBacklog = 64;
constexpr std::size_t kQuestionBytesMax = 4096;
constexpr std::string_view kHybrid = "/unified";

Outcome<UnixListener> listen_at(const std::string& path) {
  const auto failed = [&path](int error) {
    return fail(Code::kState, to_string(fairlead::system_error(path.c_str(), error)));
  };
  const auto address = UnixAddress::of_path(path);
  if (!address) return failed(ENAMETOOLONG);
  (void)::unlink(path.c_str());  // of the agent before
  auto listener = UnixListener::open(*address, {.backlog = kBacklog, .mode = 0600});
  if (!listener) return failed(listener.error().system);
  return std::move(*listener);
}

std::string refusal(const std::string& why) { return to_text(Json{{"error", why}}); }

// Omits the part that the plugin adds from its own view of the hierarchy.
std::string below_root(const std::string& path, const std::string& root) {
  std::string_view rest(path);
  if (!rest.starts_with(root)) return {};
  rest.remove_prefix(root.size());
  if (rest.starts_with(std::string(kHybrid) + "/")) rest.remove_prefix(kHybrid.size());
  return std::string(rest);
}

Result<NodePod, std::string> read_metadata(const event::ApiServer& server,
                                           const PodQuestion& asked) {
  const std::string path = pod_path(asked.name_space, asked.pod);
  const auto reply =
      SMC_TRY(server.send({"GET", path, "", "", "", kLonePodBytesMax, true, kPodMetadataType}));
  if (reply.status != http_status::kOk)
    return tl::unexpected("GET " + path + ": status " + std::to_string(reply.status));
  auto pod = reply.cut ? tl::unexpected(too_long("its metadata", reply.length, kLonePodBytesMax))
                       : parse_pod(reply.body);
  if (!pod)
    return NodePod{.name_space = asked.name_space, .name = asked.pod, .unread = pod.error()};
  return pod;
}

bool hung_up(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

std::string answer_about(const PodQuestion& question, const Result<NodePod, std::string>& pod,
                         std::string_view cgroup_path) {
  if (!pod) return refusal(pod.error());
  if (!pod->unread.empty()) return to_text(Json{{"error", pod->unread}, {"unread", true}});
  // Another pod has the name by now, for example of a StatefulSet.
  if (!question.uid.empty() && question.uid != pod->uid) return refusal("another pod by now");
  Json annotations = Json::object();
  for (const auto& [key, value] : pod->annotations)
    if (key.starts_with(kubernetes::kAnnotationPrefix)) annotations[key] = value;
  Json answer{{"annotations", std::move(annotations)}};
  if (!cgroup_path.empty()) answer["cgroup"] = cgroup_path;
  return to_text(answer);
}

Outcome<std::unique_ptr<PodAnswers>> PodAnswers::start(const std::string& run_dir,
                                                       std::string cgroup_root,
                                                       event::ApiServer server) {
  const std::string path = run_dir + "/" + kAgentSocketName;
  auto listener = SMC_TRY(listen_at(path));
  std::unique_ptr<PodAnswers> made(
      new PodAnswers(path, std::move(cgroup_root), std::move(server), std::move(listener)));
  const auto started = made->thread_.start([raw = made.get()] { raw->run(); });
  if (!started) return fail(Code::kState, to_string(started.error()));
  return made;
}

PodAnswers::PodAnswers(std::string path, std::string cgroup_root, event::ApiServer server,
                       UnixListener listener)
    : path_(std::move(path)),
      cgroup_root_(std::move(cgroup_root)),
      server_(std::move(server)),
      listener_(std::move(listener)) {}

PodAnswers::~PodAnswers() {
  thread_.stop();
  (void)::unlink(path_.c_str());
}

void PodAnswers::run() {
  for (;;) {
    const Deadline deaf = listener_.deaf_until();
    pollfd waiting{deaf ? -1 : listener_.descriptor(), POLLIN, 0};
    // Without a free descriptor the question stays pending, and is answered after a pause.
    if (!thread_.wait({&waiting, 1}, deaf.value_or(TimePoint::max()))) return;
    if (waiting.revents == 0) continue;
    const auto socket = listener_.accept();
    if (socket && !hung_up(socket->get())) answer_one(socket->get());
  }
}

void PodAnswers::answer_one(int socket) {
  pollfd readable{socket, POLLIN, 0};
  if (wait_for_events({&readable, 1}, kAgentMillisecondsMax) <= 0) return;
  std::string question(kQuestionBytesMax, '\0');
  const ssize_t count = ::recv(socket, question.data(), question.size(), 0);
  if (count <= 0) return;
  question.resize(static_cast<std::size_t>(count));
  const std::string answer = answer_to(question);
  (void)!::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
}

std::string PodAnswers::answer_to(const std::string& question) {
  const auto asked = parse_question(question);
  if (!asked) return refusal(asked.error());
  const auto pod = read_metadata(server_, *asked);
  const std::string trouble = pod ? pod->unread : pod.error();
  if (!trouble.empty())
    lines_.write(LogLevel::kWarn, "node", "no_answer", std::chrono::steady_clock::now(),
                 [&](LogEvent& line) {
                   line.field("pod", asked->name_space + "/" + asked->pod).field("what", trouble);
                 });
  if (!trouble.empty()) return answer_about(*asked, pod, "");
  const Result<std::string> cgroup = find_pod_cgroup(cgroup_root_, pod->uid);
  return answer_about(*asked, pod, cgroup ? below_root(*cgroup, cgroup_root_) : std::string());
}

}  // namespace fairlead::cni::node
