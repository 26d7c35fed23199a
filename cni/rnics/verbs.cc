#include "cni/rnics/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cni/plugin/agent_query.h"
#include "cni/plugin/node_config.h"
#include "cni/plugin/plugin_log.h"
#include "cni/plugin/pod_cgroup.h"
#include "cni/plugin/pod_setup.h"
#include "cni/plugin/wishes.h"
#include "cni/redirect/redirect.h"

namespace fairlead::cni {
namespace {

constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

bool is_enabled(const NodeConfig& config) {
  return ::access((config.run_dir + "/" + kEnabledName).c_str(), F_OK) == 0;
}

std::string echo(const Request& request) {
  Json result = *request.previous_result;
  result["cniVersion"] = request.cni_version;
  return to_text(result);
}

Json error_fields(const PluginError& error) {
  Json fields = {{"code", static_cast<unsigned>(error.code)}, {"what", error.message}};
  if (!error.details.empty()) fields["details"] = error.details;
  return fields;
}

// Facts about a pod that has a sidecar, or may have one; nothing for other pods.
std::optional<PodAnswer> facts_of(const Request& request, const NodeConfig& config,
                                  const PluginLog& log) {
  std::optional<PodAnswer> facts;
  if (request.annotations)
    facts = PodAnswer{*request.annotations, request.cgroup_path};
  else
    facts = ask_agent(config.run_dir, request);
  if (!facts) {
    log.debug("no_annotations");
    return std::nullopt;
  }
  if (facts->unread.empty() && !opted_in(facts->annotations)) return std::nullopt;
  if (!request.cgroup_path.empty()) facts->cgroup_path = request.cgroup_path;
  return facts;
}

// Not every runtime passes it. The kubelet creates the cgroup before it requests the pod's network.
Result<std::string> cgroup_of(const Request& request, const PodAnswer& facts) {
  const std::string uid = request.argument("K8S_POD_UID");
  if (facts.cgroup_path.empty() && !uid.empty()) return find_pod_cgroup(kCgroupRoot, uid);
  return pod_cgroup(facts.cgroup_path);
}

// A pod runs without failed parts, unless the operator has set failClosed.
Outcome<void> judge(const NodeConfig& config, const AttachmentState& state, const PluginLog& log) {
  for (const Problem& problem : state.problems)
    log.warn("not_done", {{"code", static_cast<unsigned>(problem.code)}, {"what", problem.what}});
  if (!config.fail_closed) return {};
  for (const Problem& problem : state.problems)
    if (problem.code == Code::kNetns || problem.code == Code::kRedirect)
      return fail(problem.code, problem.what, "failClosed is true");
  return {};
}

Outcome<void> set_up(const Request& request, const NodeConfig& config, const PodAnswer& facts,
                     const PluginLog& log) {
  if (!facts.unread.empty())
    return fail(Code::kRedirect, "it is not known whether the pod has a sidecar: " + facts.unread);
  const auto wishes = SMC_TRY(read_wishes(facts.annotations));
  auto container =
      SMC_TRY(ContainerState::open(config.run_dir, request.attachment.container_id, true));
  // A pod has one redirect, which belongs to the first of its interfaces.
  for (const std::string& other : container->interfaces()) {
    if (other == request.attachment.ifname) continue;
    log.info("redirect_present", {{"of", other}});
    return {};
  }
  const auto state =
      SMC_TRY(set_up_pod(request, config, wishes, *container, cgroup_of(request, facts)));
  log.info("added", {{"redirect", state.redirect.empty()          ? "none"
                                  : state.redirect_cgroup.empty() ? "nftables"
                                                                  : "programs"},
                     {"redirect_reason", state.redirect_reason},
                     {"option", !state.option_cgroup.empty()},
                     {"alias", state.alias},
                     {"pnet_source", state.pnet_source}});
  auto judged = judge(config, state, log);
  if (!judged) {
    undo_pod(state);
    container->remove(request.attachment.ifname);
  }
  return judged;
}

// For a pod without sidecar, the only system calls are those that read input and write output.
Outcome<std::string> add(const Request& request) {
  if (request.annotations && !opted_in(*request.annotations)) return echo(request);
  auto read = SMC_TRY(read_node_config(request.config));
  const NodeConfig& config = read.config;
  const PluginLog log(config, request);
  if (!is_enabled(config)) return echo(request);
  for (const std::string& warning : read.warnings) log.warn("configuration", {{"what", warning}});
  const auto facts = facts_of(request, config, log);
  if (!facts) return echo(request);
  const auto done = set_up(request, config, *facts, log);
  if (done) return echo(request);
  log.error("add_failed", error_fields(done.error()));
  const bool theirs = done.error().code == Code::kConfig;
  if (theirs || config.fail_closed) return tl::unexpected(done.error());
  return echo(request);
}

// The folder of the state is needed even if the rest of the configuration is invalid.
NodeConfig config_for_clean_up(const Request& request) {
  if (auto read = read_node_config(request.config)) return std::move(read->config);
  NodeConfig config;
  if (const auto found = request.config.find("runDir"); found != request.config.end())
    if (auto read = read_node_config(Json{{"runDir", *found}}))
      config.run_dir = read->config.run_dir;
  return config;
}

void undo_logged(const AttachmentState& state, const PluginLog& log) {
  if (!state.damage.empty())
    log.warn("state_ignored", {{"container", state.attachment.container_id},
                               {"interface", state.attachment.ifname},
                               {"what", state.damage}});
  undo_pod(state);
}

Outcome<void> forget(const std::string& run_dir, const Attachment& attachment,
                     const PluginLog& log) {
  auto container = SMC_TRY(ContainerState::open(run_dir, attachment.container_id, false));
  if (!container) return {};
  if (const auto state = container->load(attachment.ifname)) undo_logged(*state, log);
  container->remove(attachment.ifname);
  return {};
}

// Deletion of a pod must succeed, also without a state.
Outcome<std::string> del(const Request& request) {
  const NodeConfig config = config_for_clean_up(request);
  const PluginLog log(config, request);
  const auto done = forget(config.run_dir, request.attachment, log);
  if (!done) log.error("del_failed", error_fields(done.error()));
  return std::string();
}

Outcome<std::string> check(const Request& request) {
  if (request.annotations && !opted_in(*request.annotations)) return std::string();
  auto read = SMC_TRY(read_node_config(request.config));
  const NodeConfig& config = read.config;
  if (!is_enabled(config)) return std::string();
  auto container =
      SMC_TRY(ContainerState::open(config.run_dir, request.attachment.container_id, false));
  const auto state = container ? container->load(request.attachment.ifname) : std::nullopt;
  if (!state) {
    // Without annotations it is unknown whether the pod should have a state.
    const bool other = container && !container->interfaces().empty();
    if (!request.annotations || other) return std::string();
    return fail(Code::kState, "no state of " + request.attachment.container_id + "/" +
                                  request.attachment.ifname + " in " + config.run_dir);
  }
  SMC_TRY(check_pod(*state));
  return std::string();
}

Outcome<std::string> collect_garbage(const Request& request) {
  const NodeConfig config = config_for_clean_up(request);
  const PluginLog log(config, request);
  for (const std::string& id : known_containers(config.run_dir)) {
    auto container = ContainerState::open(config.run_dir, id, false);
    if (!container) log.warn("state_ignored", error_fields(container.error()));
    if (!container || !*container) continue;
    for (const std::string& ifname : (*container)->interfaces()) {
      const Attachment attachment{id, ifname};
      const auto state = (*container)->load(ifname);
      // Another network of this node has its own list.
      if (state && !state->network.empty() && state->network != request.network) continue;
      if (std::find(request.valid.begin(), request.valid.end(), attachment) != request.valid.end())
        continue;
      if (state) undo_logged(*state, log);
      (*container)->remove(ifname);
      log.info("collected", {{"container", id}, {"interface", ifname}});
    }
  }
  return std::string();
}

// An error makes the runtime report the whole node as not ready. So it is returned only if no pod
// with a sidecar could start.
Outcome<std::string> status(const Request& request) {
  const auto read = read_node_config(request.config);
  if (!read) {
    const auto closed = request.config.find("failClosed");
    if (closed == request.config.end() || *closed != true) return std::string();
    return fail(Code::kNotAvailable, read.error().message);
  }
  if (!read->config.fail_closed || !is_enabled(read->config)) return std::string();
  const Outcome<void> possible = check_redirect(read->config.redirect);
  if (!possible) return fail(Code::kNotAvailable, possible.error().message, "failClosed is true");
  return std::string();
}

std::string version(const Request& request) {
  return to_text(
      Json{{"cniVersion", request.cni_version}, {"supportedVersions", supported_versions()}});
}

}  // namespace

Outcome<std::string> run_verb(const Request& request) {
  switch (request.verb) {
    case Verb::kAdd:
      return add(request);
    case Verb::kDel:
      return del(request);
    case Verb::kCheck:
      return check(request);
    case Verb::kGc:
      return collect_garbage(request);
    case Verb::kStatus:
      return status(request);
    case Verb::kVersion:
      return version(request);
  }
  return std::string();
}

}  // namespace fairlead::cni
