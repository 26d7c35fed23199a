#include "cni/node/agent/rnic_counters.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/linux/files.h"

namespace fairlead::cni::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNumberBytesMax = 32;

constexpr auto kHardwareCounters = std::to_array<std::string_view>(
    {// mlx5
     "out_of_buffer", "out_of_sequence", "duplicate_request", "rnr_nak_retry_err", "packet_seq_err",
     "implied_nak_seq_err", "local_ack_timeout_err", "req_transport_retries_exceeded",
     "req_rnr_retries_exceeded", "req_remote_access_errors", "resp_remote_access_errors",
     "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "rp_cnp_handled",
     "rp_cnp_ignored", "np_cnp_sent", "np_ecn_marked_roce_packets", "rx_icrc_encapsulated",
     // rxe, besides "duplicate_request"
     "sent_pkts", "rcvd_pkts", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
     "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err",
     "send_err", "link_downed", "rdma_sends", "rdma_recvs",
     // bnxt_re
     "rx_pkts", "rx_bytes", "tx_pkts", "tx_bytes", "rx_roce_errors", "rx_roce_discards",
     "to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "rnr_naks_rcvd", "missing_resp",
     "dup_req", "oos_drop_count", "rx_out_of_buffer",
     // irdma
     "cnpHandled", "cnpIgnored", "cnpSent", "RxECNMrkd", "RxUDP", "TxUDP", "ip4InDiscards"});

constexpr auto kPortCounters = std::to_array<std::string_view>(
    {"port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_rcv_errors",
     "port_xmit_discards", "port_xmit_wait", "port_rcv_constraint_errors",
     "port_xmit_constraint_errors", "symbol_error", "link_downed", "link_error_recovery",
     "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped"});

std::optional<std::uint64_t> number_in(const fs::path& path) {
  const auto text = read_file(path, kNumberBytesMax);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = end == text->data() + text->size() || *end == '\n';
  if (error != std::errc() || !whole) return std::nullopt;
  return number;
}

void add_counters(const fs::path& folder, std::span<const std::string_view> names,
                  const RnicCounter& port, std::vector<RnicCounter>& found) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  for (const std::string_view name : names) {
    const auto value = number_in(folder / name);
    if (!value) continue;
    found.push_back(port);
    found.back().name = name;
    found.back().value = *value;
  }
}

}  // namespace

std::span<const std::string_view> hardware_counter_names() { return kHardwareCounters; }
std::span<const std::string_view> port_counter_names() { return kPortCounters; }

std::vector<RnicCounter> read_rnic_counters(const std::string& sysfs) {
  std::vector<RnicCounter> found;
  std::size_t ports = 0;
  const fs::path devices = fs::path(sysfs) / "class/infiniband";
  for (const std::string& rnic : names_in(devices)) {
    for (const std::string& port : names_in(devices / rnic / "ports")) {
      if (ports++ == kCountedPortsMax) return found;
      const fs::path folder = devices / rnic / "ports" / port;
      add_counters(folder / "hw_counters", kHardwareCounters, {rnic, port, "", true}, found);
      add_counters(folder / "counters", kPortCounters, {rnic, port, "", false}, found);
    }
  }
  return found;
}

std::vector<RnicCounter> RnicCounterReader::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void RnicCounterReader::run() {
  do {
    std::vector<RnicCounter> read = read_rnic_counters(sysfs_);
    const std::lock_guard lock(mutex_);
    latest_ = std::move(read);
  } while (thread_.wait_until(std::chrono::steady_clock::now() + interval_));
}

}  // namespace fairlead::cni::node
