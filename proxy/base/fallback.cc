#include "base/fallback.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"

namespace fairlead {
namespace {

using R = FallbackReason;

constexpr std::uint32_t kDeclineNoRdmaDevice = 0x03030002;
constexpr std::uint32_t kDeclineConfig = 0x03000000;
constexpr std::uint32_t kDeclineMemory = 0x01010000;

constexpr FallbackInfo protocol(R reason, std::string_view name, std::uint32_t code,
                                std::string_view sentence, std::string_view hint) {
  return {reason, name, code, code, false, sentence, hint, false};
}

// Only a peer's Decline gives these: their conditions cannot arise here, or are not checked.
constexpr FallbackInfo peers(R reason, std::string_view name, std::uint32_t code,
                             std::string_view sentence, std::string_view hint) {
  FallbackInfo info = protocol(reason, name, code, sentence, hint);
  info.peer_only = true;
  return info;
}

constexpr FallbackInfo ordinary(FallbackInfo info) {
  info.expected = true;
  return info;
}

// A want that may pass at any moment, or a failure that need not come again.
constexpr FallbackInfo passing(FallbackInfo info) {
  info.lasts = false;
  return info;
}

constexpr FallbackInfo ours(R reason, std::string_view name, std::uint8_t number,
                            std::uint32_t wire_code, bool expected, std::string_view sentence,
                            std::string_view hint) {
  return {reason, name, 0x0f000000U + number, wire_code, expected, sentence, hint, false};
}

constexpr std::array kTable = {
    passing(protocol(R::kMemory, "memory", 0x01010000, "no memory for buffers",
                     "raise memory.limit, or lower buffers.size; check that fairlead-node runs")),
    passing(protocol(
        R::kConfirmLinkTimeout, "confirm_link_timeout", 0x02010000,
        "the new link was not confirmed in time",
        "check that RoCE traffic (UDP port 4791) passes between the nodes in both directions")),
    passing(peers(R::kAddLinkTimeout, "add_link_timeout", 0x02020000,
                  "the second link was not added in time",
                  "check the second RNIC of both nodes with fairleadctl devices")),
    protocol(R::kConfigError, "config_error", 0x03000000,
             "configuration error: here, no port or subnet for SMC version 1",
             "smc.version is 1; set it to auto, or see fairleadctl devices"),
    protocol(R::kPeerNoSmc, "peer_no_smc", 0x03010000, "the peer offered no SMC path that we speak",
             "both sides need a version of SMC-R in common (smc.version); see fairleadctl why"),
    ordinary(protocol(
        R::kIpsec, "encrypted_path", 0x03020000,
        "the path to the peer is encrypted below TCP, and RDMA would bypass that",
        "nothing to do; smc.trusted_fabric (proxy.smc.trustedFabric) where the RDMA network is as "
        "safe")),
    protocol(R::kNoDevice, "no_device", 0x03030000, "no SMC device, or no UEID in common",
             "give both sides a UEID in common (smc.ueids; smcr ueid add on a kernel peer)"),
    peers(R::kNoSmcdDevice, "no_smcd_device", 0x03030001, "no SMC-D device",
          "SMC-D was asked for; Fairlead speaks SMC-R"),
    protocol(R::kNoRdmaDevice, "no_rdma_device", 0x03030002, "no RDMA device reaches the peer",
             "no active device towards this peer; see fairleadctl doctor"),
    peers(R::kNoIsmV2, "no_ismv2", 0x03030003, "no ISMv2 device",
          "SMC-D was asked for; Fairlead speaks SMC-R"),
    peers(R::kNoV2Extension, "no_v2_extension", 0x03030004,
          "the Proposal lacks its version 2 extension",
          "the peer's SMC implementation is at fault"),
    peers(R::kNoSmcdV2Extension, "no_smcd_v2_extension", 0x03030005,
          "the Proposal lacks its SMC-D version 2 extension",
          "the peer's SMC implementation is at fault"),
    peers(R::kNoSeid, "no_seid", 0x03030006, "no system EID was sent",
          "SMC-D was asked for; Fairlead speaks SMC-R"),
    peers(R::kNoSmcdV2Device, "no_smcd_v2_device", 0x03030007, "no matching SMC-D version 2 device",
          "SMC-D was asked for; Fairlead speaks SMC-R"),
    protocol(R::kPeerNoUeid, "peer_no_ueid", 0x03030008, "the Proposal carried no UEID",
             "give the client a UEID (smc.ueids; smcr ueid add on a kernel peer)"),
    protocol(R::kReleaseMismatch, "release_mismatch", 0x03030009, "the SMC releases do not match",
             "the peer changed its release between Accept and Confirm; report it"),
    protocol(R::kMaxConnectionsMismatch, "max_connections_mismatch", 0x0303000a,
             "no agreement on the connections of a link group",
             "smc.max_connections_per_group must be 16 to 255 on both sides"),
    protocol(R::kMaxLinksMismatch, "max_links_mismatch", 0x0303000b,
             "no agreement on the links of a link group",
             "smc.max_links must be at least 1 on both sides"),
    protocol(R::kModeMismatch, "mode_mismatch", 0x03040000,
             "the peer answered with a version or path that was not offered",
             "the peer's SMC implementation is at fault"),
    protocol(R::kRmbeEyecatcher, "rmbe_eyecatcher", 0x03050000,
             "the peer insists on eyecatchers in its buffers",
             "switch eyecatchers off at the peer (z/OS)"),
    peers(R::kUnsupportedOption, "unsupported_option", 0x03060000,
          "a socket option that SMC cannot honour", "TCP fast open excludes SMC"),
    protocol(R::kPrefixMismatch, "prefix_mismatch", 0x03070000,
             "the peers are not in one IP subnet (SMC version 1)",
             "SMC version 1 needs one subnet; use version 2 with a UEID"),
    protocol(R::kVlan, "vlan", 0x03080000,
             "the VLAN of the connection is not known, or not the peer's (SMC version 1)",
             "compare the interfaces of the connection and of the RNICs on both nodes"),
    peers(R::kIsmVlan, "ism_vlan", 0x03090000, "the VLAN cannot be used on the ISM device",
          "SMC-D was asked for; Fairlead speaks SMC-R"),
    passing(protocol(R::kNoActiveLink, "no_active_link", 0x030a0000,
                     "the link group has no active link",
                     "see fairleadctl links; a port may be down")),
    passing(protocol(R::kLinkNotFound, "link_not_found", 0x030b0000,
                     "the link that the peer named does not exist any more",
                     "happens when a link fails during set-up; the next connection recovers")),
    passing(protocol(R::kVersionMismatch, "version_mismatch", 0x030c0000,
                     "the Confirm has another SMC version than the Accept",
                     "the peer's SMC implementation is at fault")),
    passing(peers(R::kSmcdBufferLimit, "smcd_buffer_limit", 0x030d0000, "SMC-D buffer limit",
                  "SMC-D was asked for; Fairlead speaks SMC-R")),
    protocol(R::kNoRoute, "no_route", 0x030e0000, "no route to the peer's RNIC",
             "ping the peer's GID address from the RNIC's network"),
    protocol(R::kIndirectMismatch, "indirect_mismatch", 0x030f0000,
             "the server sees a gateway between the RNICs, and the client sees none",
             "compare `ip route get` of both RNIC addresses"),
    passing(protocol(R::kSyncError, "sync_error", 0x04000000,
                     "the sides disagree about their link groups",
                     "normal once after a peer restarts; the next connection makes a new group")),
    protocol(R::kPeerDeclined, "peer_declined", 0x05000000, "the peer declined",
             "the peer's own log tells why; peer_code is its reason"),
    passing(peers(R::kInternal, "internal_error", 0x09990000, "internal error",
                  "the peer's own log tells what failed there")),
    passing(peers(R::kRkey, "rkey_error", 0x09990001, "the peer's table of RMBs is full",
                  "more than 255 RMBs in a group; lower smc.max_connections_per_group")),
    passing(protocol(R::kQueuePairNotReady, "qp_not_ready", 0x09990002,
                     "the queue pair could not be readied",
                     "see fairleadctl devices; GID, MTU or route may not fit")),
    passing(protocol(R::kMemoryRegistration, "memory_registration", 0x09990003,
                     "memory could not be registered, or its key was not confirmed",
                     "check RLIMIT_MEMLOCK with fairleadctl doctor")),
    ours(R::kNoPnet, "no_pnet", 0x02, kDeclineNoRdmaDevice, false, "no PNET ID could be found",
         "set pnet.id, or let the node side hand one over"),
    ours(R::kNoUsableGid, "no_usable_gid", 0x03, kDeclineNoRdmaDevice, false,
         "the RNIC port has no usable GID",
         "see fairleadctl devices: smc.gid_subnets, gid_index or gid_type may exclude all; "
         "MLNX_OFED refuses GIDs of the node: give the pod macvlan or a VF"),
    passing(ours(R::kMemlockLimit, "memlock_limit", 0x04, kDeclineMemory, false,
                 "the limit on locked memory is used up",
                 "raise RLIMIT_MEMLOCK of the container runtime, or lower buffers.size")),
    ours(R::kDeviceOpenEperm, "device_open_eperm", 0x05, kDeclineNoRdmaDevice, false,
         "the RNIC may not be opened", "request the RDMA device resource for the container"),
    // 0x13 was shm_open_eperm. It is not used again, because older tools would show that.
    ours(R::kPolicyExcluded, "policy_excluded", 0x06, kDeclineNoRdmaDevice, true,
         "excluded by configuration", "smc.exclude lists this peer or port"),
    ours(R::kPeerNotInjected, "peer_not_injected", 0x07, 0x03010000, true,
         "the peer speaks plain TCP: its segment carried no SMC option",
         "nothing to do, unless the peer should run Fairlead or smc_run"),
    ours(R::kOptionStripped, "option_stripped", 0x08, 0x03010000, false,
         "the SMC option was removed on the way",
         "a box between the peers edits TCP options; exclude this path"),
    ours(R::kRnicExclusiveMode, "rnic_exclusive_mode", 0x09, kDeclineNoRdmaDevice, false,
         "the RDMA subsystem is in exclusive namespace mode",
         "use rdma system set netns shared, or give the pod a VF"),
    ours(R::kDisabled, "disabled", 0x0a, kDeclineNoRdmaDevice, true, "SMC is switched off",
         "smc.enabled is false"),
    ours(R::kNoOptionProgram, "no_option_program", 0x0b, kDeclineConfig, true,
         "nothing writes the SMC option: no eBPF program is attached",
         "grant CAP_BPF and CAP_NET_ADMIN, let the node side attach it, or list peers in "
         "smc.assume"),
    passing(ours(R::kHandshakeTimeout, "handshake_timeout", 0x0c, 0x02010000, false,
                 "the peer was silent during the handshake",
                 "look at the peer's log; it may be overloaded")),
    passing(ours(R::kConnectionLimit, "connection_limit", 0x0d, kDeclineMemory, false,
                 "a limit on connections or descriptors is reached",
                 "raise limits.connections or the container's nofile limit")),
    passing(ours(R::kMalformedClc, "malformed_clc", 0x0e, 0x09990000, false,
                 "the peer sent something that is not CLC",
                 "the peer is no SMC peer, or something rewrites the stream")),
    passing(ours(R::kDraining, "draining", 0x0f, kDeclineNoRdmaDevice, true,
                 "this proxy is shutting down", "nothing to do")),
    passing(ours(R::kPortDown, "rnic_port_down", 0x10, kDeclineNoRdmaDevice, false,
                 "no port of the RNIC is up",
                 "check cable, switch, and the RNIC's network interface")),
    ours(R::kRnicNotGiven, "rnic_not_given", 0x11, kDeclineNoRdmaDevice, false,
         "the node gave the sidecar no RNIC", "fairleadctl devices tells what the node says"),
    ours(R::kRnicUnsupported, "rnic_unsupported", 0x12, kDeclineNoRdmaDevice, false,
         "the RNIC or its port cannot carry SMC-R",
         "fairleadctl devices tells what it lacks; SMC-R needs RoCE or InfiniBand"),
    passing(
        ours(R::kOptionWithheld, "option_withheld", 0x14, 0x03010000, true,
             "the SYN/ACK carried no SMC option, but this address has answered with it before",
             "see the peer's log: it may be drained, short of memory, or under a flood of SYNs; or "
             "another server of this address has no Fairlead")),
};

constexpr bool table_is_ordered() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].reason) != i) return false;
  return kTable.size() == static_cast<std::size_t>(R::kOptionWithheld) + 1;
}
static_assert(table_is_ordered());

}  // namespace

std::span<const FallbackInfo> fallback_table() { return kTable; }

const FallbackInfo& fallback_info(FallbackReason reason) {
  const auto index = static_cast<std::size_t>(reason);
  SMC_ASSERT(index < kTable.size(), index);
  return kTable[index];
}

const FallbackInfo* find_fallback(std::string_view name) {
  const auto* const found = std::find_if(
      kTable.begin(), kTable.end(), [&](const FallbackInfo& info) { return info.name == name; });
  return found == kTable.end() ? nullptr : found;
}

std::size_t fallback_reason_count() { return kTable.size(); }

// As helm/fairlead/files/rules.yaml has it, which monitoring_test.py compares.
FallbackAlarm fallback_alarm(FallbackReason reason) {
  constexpr std::array kNone = {R::kPeerNotInjected, R::kOptionWithheld, R::kPolicyExcluded,
                                R::kDisabled,        R::kDraining,       R::kIpsec};
  constexpr std::array kMeant = {R::kNoRdmaDevice, R::kRnicNotGiven};
  if (std::find(kNone.begin(), kNone.end(), reason) != kNone.end()) return FallbackAlarm::kNone;
  if (std::find(kMeant.begin(), kMeant.end(), reason) != kMeant.end()) return FallbackAlarm::kMeant;
  return FallbackAlarm::kShare;
}

FallbackReason fallback_from_wire(std::uint32_t code) {
  for (const FallbackInfo& info : kTable)
    if (info.code == code) return info.reason;
  return R::kPeerDeclined;
}

FallbackReason fallback_from_open(const Error& error) {
  if (error.system == EMFILE || error.system == ENFILE) return R::kConnectionLimit;
  if (error.code == Errc::kPermission) return R::kDeviceOpenEperm;
  if (error.code == Errc::kExhausted) return R::kMemlockLimit;
  if (error.code == Errc::kMemoryLimit) return R::kMemory;
  if (error.code == Errc::kUnsupported) return R::kRnicUnsupported;
  return R::kNoRdmaDevice;
}

FallbackReason fallback_from_connect(const Error& error) {
  return error.system == ENODEV ? R::kNoUsableGid : R::kQueuePairNotReady;
}

}  // namespace fairlead
