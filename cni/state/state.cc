#include "cni/state/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/linux/files.h"

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

// Only the user that runs the plugin, and root, may have made what it acts upon.
Outcome<void> check_status(const std::string& path, const struct stat& status) {
  if (!S_ISDIR(status.st_mode)) return failed(path, ENOTDIR);
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return fail(Code::kState, "state: " + path + ": user " + std::to_string(status.st_uid) +
                                  " is not allowed as its owner; allowed: 0");
  return {};
}

// No error for a folder that is missing.
Outcome<void> check_folder(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? Outcome<void>() : failed(path, errno);
  return check_status(path, status);
}

Outcome<void> check_owner(const std::string& path, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return failed(path, errno);
  return check_status(path, status);
}

Outcome<void> make_folders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed(folder, errno);
  return {};
}

// flock(2) has no time limit of its own. 0, or an error number.
int take_lock(int fd, std::chrono::steady_clock::time_point deadline) {
  constexpr timespec kPause{0, 5'000'000};
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return errno;
    if (std::chrono::steady_clock::now() > deadline) return ETIMEDOUT;
    (void)::nanosleep(&kPause, nullptr);
  }
  return 0;
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

std::string pin_name(const Attachment& attachment) {
  return attachment.container_id + "-" + attachment.ifname;
}

bpf::RedirectPlace redirect_place(const AttachmentState& state) {
  return {state.redirect_cgroup, pin_name(state.attachment)};
}

std::string name_of(const AttachmentState& state) {
  if (state.pod_name.empty()) return state.attachment.container_id;
  return state.pod_namespace + "/" + state.pod_name;
}

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
                      {"redirectCgroup", state.redirect_cgroup},
                      {"redirectReason", state.redirect_reason},
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
  state.redirect_cgroup = text_of(*json, "redirectCgroup");
  state.redirect_reason = text_of(*json, "redirectReason");
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
  const auto deadline = std::chrono::steady_clock::now() + kLockWaitMax;
  for (int attempt = 0; attempt < kLockAttemptsMax; ++attempt) {
    if (create) SMC_TRY(make_folders({run_dir, all}));
    // Before anything below it is made, or opened.
    SMC_TRY(check_folder(all));
    if (create) SMC_TRY(make_folders({path}));
    FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!lock && errno == ENOENT) {
      if (create) continue;
      return std::optional<ContainerState>();
    }
    if (!lock) return failed(path, errno);
    SMC_TRY(check_owner(path, lock.get()));
    if (const int error = take_lock(lock.get(), deadline)) return failed(path, error);
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
  const std::string path = state_path(path_, ifname);
  const auto text = read_file(path, kStateBytesMax, O_NOFOLLOW);
  if (!text && text.error().system == ENOENT) return std::nullopt;
  const Attachment attachment{path_.substr(path_.rfind('/') + 1), ifname};
  auto state = text ? parse_state(*text) : tl::unexpected(failed(path, text.error().system));
  // That of another pod must not make us undo the other pod.
  if (state && state->attachment == attachment) return std::move(*state);
  AttachmentState unknown;
  unknown.attachment = attachment;
  unknown.damage =
      state ? "state: containerID and ifname: " +
                  in_quotes(state->attachment.container_id + "/" + state->attachment.ifname) +
                  " is not allowed; allowed: those of its path"
            : state.error().message;
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
  if (!check_folder(attachments_dir(run_dir)) || !check_folder(folder)) return std::nullopt;
  for (const std::string& ifname : interfaces_in(folder)) {
    const auto text = read_file(state_path(folder, ifname), kStateBytesMax, O_NOFOLLOW);
    auto state = parse_state(text ? *text : std::string());
    const bool own = state && state->attachment == Attachment{container_id, ifname};
    if (own && !state->netns.empty() && state->identity.inode != 0) return std::move(*state);
  }
  return std::nullopt;
}

std::vector<std::string> known_containers(const std::string& run_dir) {
  std::vector<std::string> known;
  if (!check_folder(attachments_dir(run_dir))) return known;
  for (const std::string& name : names_in(attachments_dir(run_dir)))
    if (is_container_id(name)) known.push_back(name);
  return known;
}

}  // namespace fairlead::cni
