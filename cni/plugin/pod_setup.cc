#include "cni/plugin/pod_setup.h"

#include <optional>
#include <utility>

#include "base/encrypted_paths.h"
#include "base/hand_over.h"
#include "bpf/client_address_program.h"
#include "bpf/option_program.h"
#include "cni/plugin/pod_plan.h"
#include "cni/redirect/link_alias.h"
#include "cni/redirect/netns.h"
#include "cni/redirect/packet_filter.h"
#include "cni/redirect/redirect.h"
#include "cni/rnics/kernel_pnet.h"
#include "cni/rnics/path_encryption.h"
#include "cni/rnics/path_facts.h"
#include "cni/rnics/rnics.h"

namespace fairlead::cni {
namespace {

void note(AttachmentState& state, Code code, std::string what) {
  if (state.problems.size() < kProblemsMax) state.problems.push_back({code, std::move(what)});
}

// Runs in the pod's network namespace. If paths cannot be determined, the node side's next check
// does it.
EncryptedPaths encrypted_from_here(const Result<PathFacts>& node) {
  const Result<PathFacts> pod = node ? read_path_facts(look_at_pod(*node)) : node;
  return pod && node ? encrypted_paths(*pod, *node) : EncryptedPaths{true, {}};
}

// An ADD that was interrupted may have come to the second choice.
bool may_have_table(const AttachmentState& state) {
  return state.redirect_cgroup.empty() || !state.finished;
}

void hand_over(AttachmentState& state, const PnetChoice& choice, const EncryptedPaths& encrypted) {
  state.pnet_source = choice.source;
  const Result<std::string> before = read_loopback_alias();
  if (!before) return note(state, Code::kHandOver, to_string(before.error()));
  if (!before->empty() && !before->starts_with(kAliasPrefix))
    return note(state, Code::kHandOver, "interface lo has an alias of somebody else's");
  const std::string alias = to_alias(choice.note);
  const Result<void> written = write_loopback_alias(with_encrypted(alias, encrypted));
  if (!written) return note(state, Code::kHandOver, to_string(written.error()));
  state.alias = alias;
}

void enter_kernel_pnet(AttachmentState& state, const PnetChoice& choice) {
  if (choice.note.pnet.empty()) return;
  const Result<void> added = add_kernel_pnet(choice.note.pnet, state.attachment.ifname);
  if (added) {
    state.kernel_pnet = choice.note.pnet;
  } else if (added.error().code != Errc::kNotFound) {
    note(state, Code::kPnet, to_string(added.error()));
  }
}

void attach_option(AttachmentState& state, const Result<std::string>& cgroup,
                   const NodeConfig& config) {
  if (!cgroup) return note(state, Code::kOption, to_string(cgroup.error()));
  const Result<void> attached = bpf::attach_lasting(*cgroup, config.proxy_uid);
  if (!attached) {
    const std::string more = bpf::refusal();
    return note(state, Code::kOption,
                to_string(attached.error()) + (more.empty() ? "" : ": " + more));
  }
  state.option_cgroup = *cgroup;
}

void attach_client_address(AttachmentState& state, const Result<std::string>& cgroup,
                           const NodeConfig& config, const Wishes& wishes) {
  if (!wishes.client_address.value_or(config.client_address)) return;
  if (!cgroup) return;  // already reported for the option program
  const Result<void> attached = bpf::attach_client_address(*cgroup);
  if (!attached) {
    const std::string more = bpf::refusal();
    return note(state, Code::kClientAddress,
                to_string(attached.error()) + (more.empty() ? "" : ": " + more));
  }
  state.client_address_cgroup = *cgroup;
  const Result<std::uint32_t> map = bpf::find_client_address_map(*cgroup);
  if (!map) return note(state, Code::kClientAddress, to_string(map.error()));
  state.client_address_map = *map;
}

void act_inside(AttachmentState& state, const Netns& netns, const bpf::RedirectRules& rules,
                const PnetChoice& choice, const Result<std::string>& cgroup,
                RedirectChoice redirect, bool table) {
  const Result<PathFacts> node = read_path_facts(look_at_node());
  const Result<NetnsVisit> visit = NetnsVisit::enter(netns);
  if (!visit) return note(state, Code::kNetns, to_string(visit.error()));
  hand_over(state, choice, encrypted_from_here(node));
  enter_kernel_pnet(state, choice);
  // Last: with it, the pod's connections depend on the sidecar.
  auto installed = install_redirect(rules, {cgroup, pin_name(state.attachment)}, redirect, table);
  if (!installed) return note(state, installed.error().code, installed.error().message);
  state.redirect = std::move(installed->reading);
  state.redirect_cgroup = std::move(installed->cgroup);
  state.redirect_reason = std::move(installed->reason);
}

}  // namespace

Outcome<AttachmentState> set_up_pod(const Request& request, const NodeConfig& config,
                                    const Wishes& wishes, const ContainerState& container,
                                    const Result<std::string>& cgroup) {
  AttachmentState state;
  state.attachment = request.attachment;
  state.network = request.network;
  state.netns = request.netns;
  state.pod_namespace = request.argument("K8S_POD_NAMESPACE");
  state.pod_name = request.argument("K8S_POD_NAME");
  state.pod_uid = request.argument("K8S_POD_UID");
  const Result<Netns> netns = Netns::open(request.netns);
  if (netns) state.identity = netns->identity();
  if (!netns)
    note(state, Code::kNetns,
         "CNI_NETNS: " + in_quotes(request.netns) + ": " + to_string(netns.error()));
  const std::optional<AttachmentState> before = container.load(request.attachment.ifname);
  // Recorded first, so that DEL finds it if this process is interrupted.
  if (netns && cgroup)
    state.option_cgroup = state.client_address_cgroup = state.redirect_cgroup = *cgroup;
  SMC_TRY(container.store(state));
  state.option_cgroup.clear();
  state.client_address_cgroup.clear();
  state.redirect_cgroup.clear();
  if (netns) {
    attach_option(state, cgroup, config);
    attach_client_address(state, cgroup, config, wishes);
    const PnetChoice choice =
        choose_pnet(config, wishes, state.pod_namespace,
                    config.use_rnics ? find_rnic_ports() : std::vector<RnicPort>());
    if (!wishes.pnet_id.empty() && choice.note.pnet.empty()) note(state, Code::kPnet, choice.hint);
    const bpf::RedirectRules rules =
        redirect_rules(config, wishes, addresses_of(*request.previous_result));
    act_inside(state, *netns, rules, choice, cgroup, config.redirect,
               before && may_have_table(*before));
  }
  state.finished = true;
  SMC_TRY(container.store(state));
  return state;
}

void undo_pod(const AttachmentState& state) {
  // Programs act until their cgroup is gone, which may be later than the network namespace.
  if (!state.redirect_cgroup.empty())
    (void)bpf::detach_redirect_programs_outside(redirect_place(state));
  if (!state.option_cgroup.empty()) (void)bpf::detach_lasting(state.option_cgroup);
  if (!state.client_address_cgroup.empty())
    (void)bpf::detach_client_address(state.client_address_cgroup);
  const Result<Netns> netns = Netns::open(state.netns);
  if (!netns || netns->identity() != state.identity) return;
  const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
  if (!visit) return;
  if (!state.redirect_cgroup.empty()) (void)bpf::detach_redirect_filters();
  if (may_have_table(state)) (void)remove_packet_filter();
  const Result<std::string> alias = read_loopback_alias();
  if (alias && alias->starts_with(kAliasPrefix)) (void)write_loopback_alias("");
  if (!state.kernel_pnet.empty()) (void)remove_kernel_pnet(state.kernel_pnet);
}

Outcome<void> check_pod(const AttachmentState& state) {
  if (!state.damage.empty()) return fail(Code::kState, state.damage);
  if (!state.finished) return fail(Code::kState, "ADD did not come to its end");
  if (!state.problems.empty())
    return fail(state.problems.front().code, state.problems.front().what, "since ADD");
  const Result<Netns> netns = Netns::open(state.netns);
  if (!netns) return fail(Code::kNetns, in_quotes(state.netns) + ": " + to_string(netns.error()));
  if (netns->identity() != state.identity)
    return fail(Code::kNetns, in_quotes(state.netns) + ": another network namespace than at ADD");
  {
    const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
    if (!visit) return fail(Code::kNetns, in_quotes(state.netns) + ": " + to_string(visit.error()));
    const auto reading = SMC_TRY(read_redirect(redirect_place(state)));
    if (const std::string changes = difference(without_gone_interfaces(state.redirect), reading);
        !changes.empty())
      return fail(Code::kRedirect, "redirect: not as ADD left it", changes);
    const Result<std::string> alias = read_loopback_alias();
    // The node side adds its decision about the sidecar's devices, and encrypted paths.
    if (!alias || note_of_plugin(*alias) != note_of_plugin(state.alias))
      return fail(Code::kHandOver, "alias of lo: not as ADD left it",
                  "is " + in_quotes(alias ? *alias : "") + ", was " + in_quotes(state.alias));
    if (!state.kernel_pnet.empty()) {
      const Result<std::string> pnet = read_kernel_pnet(state.attachment.ifname);
      if (!pnet || *pnet != state.kernel_pnet)
        return fail(Code::kPnet, "PNET entry: not as ADD left it", "was " + state.kernel_pnet);
    }
  }
  const Result<bool> attached = bpf::is_attached(state.option_cgroup);
  if (!attached || !*attached)
    return fail(Code::kOption, "option program: not attached any more", state.option_cgroup);
  if (state.client_address_cgroup.empty()) return {};
  const Result<std::uint32_t> map = bpf::find_client_address_map(state.client_address_cgroup);
  if (!map || *map != state.client_address_map)
    return fail(Code::kClientAddress, "client-address programs: not attached any more",
                state.client_address_cgroup);
  return {};
}

}  // namespace fairlead::cni
