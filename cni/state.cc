#include "cni/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cni/files.h"

namespace fairlead::cni {
namespace {

constexpr std::size_t kStateBytesMax = 1 << 20;
constexpr std::string_view kSuffix = ".json";
constexpr int kFormat = 1;
// Other calls remove an empty folder, but not this many times in succession.
constexpr int kLockAttemptsMax = 1000;

tl::unexpected<PluginError> failed(const std::string& path, int error_number) {
  return fail(Code::kState, "state: " + to_string(system_error(path.c_str(), error_number)));
}

std::string text_of(const Json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t number_of(const Json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string state_path(const std::string& folder, const std::string& ifname) {
  return folder + "/" + ifname + std::string(kSuffix);
}

std::vector<std::string> interfaces_in(const std::string& folder) {
  std::vector<std::string> interfaces;
  for (const std::string& name : names_in(folder))
    if (name.ends_with(kSuffix) &&
        is_interface_name(std::string_view(name).substr(0, name.size() - kSuffix.size())))
      interfaces.push_back(name.substr(0, name.size() - kSuffix.size()));
  return interfaces;
}

}  // namespace

std::string to_json_text(const AttachmentState& state) {
  Json problems = Json::array();
  for (const Problem& problem : state.problems)
    problems.push_back({{"code", static_cast<unsigned>(problem.code)}, {"what", problem.what}});
  return to_text(Json{{"format", kFormat},
                      {"containerID", state.attachment.container_id},
                      {"ifname", state.attachment.ifname},
                      {"network", state.network},
                      {"netns", state.netns},
                      {"netnsDevice", state.identity.device},
                      {"netnsInode", state.identity.inode},
                      {"podNamespace", state.pod_namespace},
                      {"podName", state.pod_name},
                      {"podUID", state.pod_uid},
                      {"alias", state.alias},
                      {"redirect", state.redirect},
                      {"kernelPnet", state.kernel_pnet},
                      {"pnetSource", state.pnet_source},
                      {"optionCgroup", state.option_cgroup},
                      {"clientAddressCgroup", state.client_address_cgroup},
                      {"clientAddressMap", state.client_address_map},
                      {"finished", state.finished},
                      {"problems", std::move(problems)}}) +
         "\n";
}

Outcome<AttachmentState> parse_state(std::string_view text) {
  const auto json = parse_json(text);
  if (!json) return fail(Code::kState, "state: " + json.error());
  if (!json->is_object() || json->value("format", Json()) != kFormat)
    return fail(Code::kState, "state: format: " +
                                  shown(json->is_object() ? json->value("format", Json()) : *json) +
                                  " is not allowed; allowed: 1");
  AttachmentState state;
  state.attachment = {text_of(*json, "containerID"), text_of(*json, "ifname")};
  state.network = text_of(*json, "network");
  state.netns = text_of(*json, "netns");
  state.identity = {number_of(*json, "netnsDevice"), number_of(*json, "netnsInode")};
  state.pod_namespace = text_of(*json, "podNamespace");
  state.pod_name = text_of(*json, "podName");
  state.pod_uid = text_of(*json, "podUID");
  state.alias = text_of(*json, "alias");
  state.kernel_pnet = text_of(*json, "kernelPnet");
  state.pnet_source = text_of(*json, "pnetSource");
  state.option_cgroup = text_of(*json, "optionCgroup");
  state.client_address_cgroup = text_of(*json, "clientAddressCgroup");
  state.client_address_map = static_cast<std::uint32_t>(number_of(*json, "clientAddressMap"));
  state.finished = json->value("finished", Json(false)) == true;
  for (const Json& line : json->value("redirect", Json::array()))
    if (line.is_string()) state.redirect.push_back(line.get<std::string>());
  for (const Json& problem : json->value("problems", Json::array()))
    if (problem.is_object() && state.problems.size() < kProblemsMax)
      state.problems.push_back(
          {static_cast<Code>(number_of(problem, "code")), text_of(problem, "what")});
  return state;
}

Outcome<std::optional<ContainerState>> ContainerState::open(const std::string& run_dir,
                                                            const std::string& container_id,
                                                            bool create) {
  const std::string all = attachments_dir(run_dir);
  const std::string path = all + "/" + container_id;
  for (int attempt = 0; attempt < kLockAttemptsMax; ++attempt) {
    if (create) {
      for (const std::string& folder : {run_dir, all, path})
        if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed(folder, errno);
    }
    FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!lock && errno == ENOENT) {
      if (create) continue;
      return std::optional<ContainerState>();
    }
    if (!lock) return failed(path, errno);
    while (::flock(lock.get(), LOCK_EX) != 0)
      if (errno != EINTR) return failed(path, errno);
    // The previous holder of the lock may have removed the folder, and there may be a new one.
    struct stat held {};
    struct stat named {};
    if (::fstat(lock.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev)
      return std::optional<ContainerState>(ContainerState(path, std::move(lock)));
  }
  return failed(path, EBUSY);
}

ContainerState::~ContainerState() {
  if (lock_) (void)::rmdir(path_.c_str());  // fails when there is something in it
}

std::optional<AttachmentState> ContainerState::load(const std::string& ifname) const {
  const auto text = read_file(state_path(path_, ifname), kStateBytesMax, O_NOFOLLOW);
  if (!text && text.error().system == ENOENT) return std::nullopt;
  auto state = parse_state(text ? *text : std::string());
  if (state) return std::move(*state);
  AttachmentState unknown;
  unknown.attachment = {path_.substr(path_.rfind('/') + 1), ifname};
  return unknown;
}

Outcome<void> ContainerState::store(const AttachmentState& state) const {
  const std::string path = state_path(path_, state.attachment.ifname);
  // Names of interfaces contain no blank, so no state has this name.
  const std::string fresh = path_ + "/ new";
  const auto written = replace_file(path, fresh, to_json_text(state), 0600);
  if (!written) return failed(path, written.error().system);
  return {};
}

void ContainerState::remove(const std::string& ifname) const {
  (void)::unlink((path_ + "/" + ifname + std::string(kSuffix)).c_str());
  (void)::unlink((path_ + "/ new").c_str());  // of a call that was killed
}

std::vector<std::string> ContainerState::interfaces() const { return interfaces_in(path_); }

std::string attachments_dir(const std::string& run_dir) { return run_dir + "/attachments"; }

std::optional<AttachmentState> peek_state(const std::string& run_dir,
                                          const std::string& container_id) {
  const std::string folder = attachments_dir(run_dir) + "/" + container_id;
  for (const std::string& ifname : interfaces_in(folder)) {
    const auto text = read_file(state_path(folder, ifname), kStateBytesMax, O_NOFOLLOW);
    auto state = parse_state(text ? *text : std::string());
    if (state && !state->netns.empty() && state->identity.inode != 0) return std::move(*state);
  }
  return std::nullopt;
}

std::vector<std::string> known_containers(const std::string& run_dir) {
  std::vector<std::string> known;
  for (const std::string& name : names_in(attachments_dir(run_dir)))
    if (is_container_id(name)) known.push_back(name);
  return known;
}

}  // namespace fairlead::cni
