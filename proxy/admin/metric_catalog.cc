#include "admin/metric_catalog.h"

#include <array>

#include "event/http/http_refusals.h"

namespace fairlead::admin {
namespace {

using M = Metric;
using T = exposition::MetricType;

constexpr std::string_view kNoLabels = "";
constexpr std::string_view kTraffic =
    "`direction` (outbound, inbound), `transport` (smcr, tcp, short)";
constexpr std::string_view kPort = "`rnic` (device), `port` (number)";
constexpr std::string_view kMessages = "`result` (sent, received, rejected)";

constexpr std::array kCatalog = {
    MetricInfo{M::kBuildInfo, "fairlead_build_info", T::kGauge,
               "`version`, `revision`, `backend` (kinds of devices)",
               "Always 1; the labels tell what was built."},
    MetricInfo{M::kReady, "fairlead_ready", T::kGauge, kNoLabels,
               "1 once the proxy was able to serve; it stays 1 from then on."},
    MetricInfo{M::kDraining, "fairlead_draining", T::kGauge, kNoLabels,
               "1 while the proxy drains and gives new connections to TCP."},
    MetricInfo{M::kWorkers, "fairlead_workers", T::kGauge, "`state` (answering, silent)",
               "Workers, by whether they answered this scrape in time."},
    MetricInfo{
        M::kConnectionsTotal, "fairlead_connections_total", T::kCounter, kTraffic,
        "Connections that were carried, by what carried them. short: TCP that ended before it "
        "had earned SMC-R (smc.defer_bytes)."},
    MetricInfo{M::kConnectionsActive, "fairlead_connections_active", T::kGauge, kTraffic,
               "Connections that are open now."},
    MetricInfo{
        M::kBytesTotal, "fairlead_bytes_total", T::kCounter,
        "`direction` (outbound, inbound), `transport` (smcr, tcp, short), `flow` (tx: towards the "
        "peer, rx: from the peer)",
        "Bytes of applications that were carried."},
    MetricInfo{
        M::kFallbackTotal, "fairlead_fallback_total", T::kCounter,
        "`direction` (outbound, inbound), `side` (local, peer: who decided), `reason` and "
        "`code` (see reasons.md)",
        "Connections that are TCP and not SMC-R, by reason; a series begins with the first such "
        "connection."},
    MetricInfo{
        M::kHandshakeDuration, "fairlead_handshake_duration_seconds", T::kHistogram,
        "`result` (smcr, fallback)",
        "Time from the TCP connection, or from the end of its frames, to the decision on its "
        "transport."},
    MetricInfo{M::kFirstAnswer, "fairlead_first_answer_seconds", T::kHistogram,
               "`direction` (outbound, inbound)",
               "Time from the latest byte that the side which connected has sent to the first byte "
               "that comes back."},
    MetricInfo{M::kLongestWait, "fairlead_longest_wait_seconds", T::kHistogram,
               "`direction` (outbound, inbound)",
               "The longest of such times of a connection, when it ends."},
    MetricInfo{M::kTcpLosses, "fairlead_pod_tcp_losses_total", T::kCounter,
               "`kind` (retransmitted: segments but for SYNs, timeouts: of retransmission, "
               "receive_drops and "
               "receive_prunes: a receive buffer had no room)",
               "What the kernel counts in the pod's network namespace, for connections of "
               "applications, too."},
    MetricInfo{M::kConnectionsMoved, "fairlead_connections_moved_total", T::kCounter, kNoLabels,
               "Connections that went on over another link when theirs had failed."},
    MetricInfo{M::kConnectionsReset, "fairlead_connections_reset_total", T::kCounter, kNoLabels,
               "Connections that ended in an abort of either side."},
    MetricInfo{
        M::kConnectionsRefused, "fairlead_connections_refused_total", T::kCounter,
        "`reason` (limit, denied: by `fallback: deny`, handshake: it failed too late for TCP, "
        "redirect: without an original destination)",
        "Connections that were closed instead of being carried."},
    MetricInfo{M::kPeerTimeouts, "fairlead_peer_timeouts_total", T::kCounter, kNoLabels,
               "Connections over TCP that ended because the peer's host no longer answered."},
    MetricInfo{M::kMemoryRefused, "fairlead_memory_refused_total", T::kCounter, kNoLabels,
               "Connections refused for `limit` that found memory.limit spent."},
    MetricInfo{M::kDescriptorsRefused, "fairlead_descriptors_refused_total", T::kCounter, kNoLabels,
               "Connections refused for `limit` that found descriptors used up."},
    MetricInfo{M::kPeerFaults, "fairlead_peer_faults_total", T::kCounter, kNoLabels,
               "What peers did wrong on the shared-memory device, or wanted beyond a limit."},
    MetricInfo{M::kAcceptErrors, "fairlead_accept_errors_total", T::kCounter, kNoLabels,
               "Failures of accept(2), for want of descriptors or memory."},
    MetricInfo{M::kTakenBack, "fairlead_taken_back_total", T::kCounter, "`result` (kept, lost)",
               "Connections that the process before had at its end, by whether they go on here."},
    MetricInfo{M::kHandOverGap, "fairlead_hand_over_gap_seconds", T::kGauge, kNoLabels,
               "How long these connections were parked; 0 if there were none."},
    MetricInfo{M::kLogDropped, "fairlead_log_dropped_total", T::kCounter, kNoLabels,
               "Lines of the log that were dropped because nobody read standard error in time."},
    MetricInfo{M::kClientAddress, "fairlead_client_address_total", T::kCounter,
               "`result` (shown, off, unavailable, no_slot, family, refused)",
               "Connections to the application, by whether it sees the client's address."},
    MetricInfo{M::kDestinationsDirect, "fairlead_destinations_direct", T::kGauge,
               "`reason` (why SMC-R is not possible, see reasons.md)",
               "Destinations to which connections of applications go past the proxy."},
    MetricInfo{M::kDirectConnections, "fairlead_direct_connections_total", T::kCounter, kNoLabels,
               "Connections of applications that went past the proxy."},
    MetricInfo{M::kLinkGroups, "fairlead_link_groups", T::kGauge,
               "`state` (single, symmetric, asymmetric_local, asymmetric_peer, none)",
               "Link groups, by the redundancy of their links."},
    MetricInfo{M::kLinksActive, "fairlead_links_active", T::kGauge, kNoLabels,
               "Links that are active, on all devices."},
    MetricInfo{M::kLinks, "fairlead_links", T::kGauge,
               "`rnic` (device), `port` (number), `state` (activating, active, down)",
               "Links, by device and state."},
    MetricInfo{M::kLinkEvents, "fairlead_link_events_total", T::kCounter,
               "`event` (added, deleted, failed, moved, refused)",
               "What happened to links; the first link of a group is added when its first contact "
               "begins. Refused: of those that failed, because an RNIC refused a packet."},
    MetricInfo{M::kLinkTest, "fairlead_link_test_total", T::kCounter, "`result` (ok, timeout)",
               "TEST_LINK exchanges that were completed."},
    MetricInfo{M::kLinkRtt, "fairlead_link_rtt_seconds", T::kGauge, "`rnic` (device)",
               "Round trip of the last TEST_LINK, the longest among the links of the device."},
    MetricInfo{M::kRnicPortUp, "fairlead_rnic_port_up", T::kGauge, kPort,
               "1 if the port is active in the view of every worker."},
    MetricInfo{M::kRnicGidUsable, "fairlead_rnic_gid_usable", T::kGauge, kPort,
               "1 if the port has a GID that SMC-R can use."},
    MetricInfo{M::kRnicMissing, "fairlead_rnic_missing", T::kGauge, kNoLabels,
               "1 if configuration and node mean the proxy to have an RNIC, and it has none."},
    MetricInfo{M::kPnetInfo, "fairlead_pnet_info", T::kGauge,
               "`pnet`, `source` (where it came from)",
               "Always 1; the labels tell the PNET IDs in use."},
    MetricInfo{M::kMemory, "fairlead_memory_bytes", T::kGauge,
               "`use` (rings, peer_rings, messages, connections)",
               "Memory that is set aside out of memory.limit, by its use; see configuration.md."},
    MetricInfo{M::kMemoryLimit, "fairlead_memory_limit_bytes", T::kGauge, kNoLabels,
               "memory.limit."},
    MetricInfo{M::kPinnedMemory, "fairlead_pinned_memory_bytes", T::kGauge, kNoLabels,
               "Rings that are registered with devices; on an RNIC they cannot be swapped."},
    MetricInfo{
        M::kPinnedMemoryLimit, "fairlead_pinned_memory_limit_bytes", T::kGauge, kNoLabels,
        "How much memory the proxy may register: the part of memory.limit that is for rings."},
    MetricInfo{M::kRmbBytes, "fairlead_rmb_bytes", T::kGauge, "`state` (used, free)",
               "Receive buffers (RMBs) and send rings, by whether a connection has them."},
    MetricInfo{M::kBufferFull, "fairlead_buffer_full_total", T::kCounter,
               "`side` (local: our ring, peer: the peer's RMB)",
               "Turns in which a sender found no room."},
    MetricInfo{M::kBufferDowngrade, "fairlead_buffer_downgrade_total", T::kCounter, kNoLabels,
               "Receive buffers and send rings that were given smaller than asked for."},
    MetricInfo{M::kSlabsReturned, "fairlead_slabs_returned_total", T::kCounter, kNoLabels,
               "Slabs of rings that went back to the system because no connection used them."},
    MetricInfo{M::kCdcMessages, "fairlead_cdc_messages_total", T::kCounter, kMessages,
               "CDC messages, which carry the cursors of connections."},
    MetricInfo{M::kLlcMessages, "fairlead_llc_messages_total", T::kCounter, kMessages,
               "LLC messages, which control links."},
    MetricInfo{M::kReceiveQueueLow, "fairlead_receive_queue_low_total", T::kCounter, kNoLabels,
               "Times that a receive queue fell below its limit."},
    MetricInfo{M::kLoopTurns, "fairlead_loop_turns_total", T::kCounter, kNoLabels,
               "Turns of the workers' event loops."},
    MetricInfo{M::kSpinPolls, "fairlead_spin_polls_total", T::kCounter, "`result` (hit, miss)",
               "Spins on the completion queue before sleeping, by whether something came."},
    MetricInfo{M::kSpinSeconds, "fairlead_spin_seconds_total", T::kCounter, kNoLabels,
               "Time spent in such spins."},
    MetricInfo{M::kHttpRefused, "fairlead_http_refused_total", T::kCounter,
               event::kHttpRefusalLabel,
               "Connections and requests that the admin interface refused."},
    MetricInfo{M::kProcessCpu, "process_cpu_seconds_total", T::kCounter, kNoLabels,
               "CPU time of the process, user and system."},
    MetricInfo{M::kProcessMemory, "process_resident_memory_bytes", T::kGauge, kNoLabels,
               "Resident memory of the process."},
    MetricInfo{M::kProcessOpenFds, "process_open_fds", T::kGauge, kNoLabels,
               "File descriptors that are open."},
    MetricInfo{M::kProcessMaxFds, "process_max_fds", T::kGauge, kNoLabels,
               "File descriptors that may be open."},
    MetricInfo{M::kProcessStart, "process_start_time_seconds", T::kGauge, kNoLabels,
               "When the process started, in seconds since 1970."},
};

static_assert(is_complete(kCatalog, M::kProcessStart));

}  // namespace

std::span<const MetricInfo> metric_catalog() { return kCatalog; }

}  // namespace fairlead::admin
