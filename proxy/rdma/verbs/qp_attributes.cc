#include "rdma/verbs/qp_attributes.h"

#include <algorithm>
#include <cstring>

#include "rdma/verbs/verbs_status.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr std::uint8_t kReceiverNotReadyTimer = 5;  // 0.06 ms
constexpr std::uint8_t kHopLimitRouted = 64;

}  // namespace

Mtu mtu_limit(unsigned bytes) {
  constexpr unsigned kSmallestBytes = 256;
  if (bytes == 0) return Mtu::k4096;
  auto code = static_cast<unsigned>(Mtu::k256);
  while (kSmallestBytes << (code - 1) < bytes && code < static_cast<unsigned>(Mtu::k4096)) ++code;
  return static_cast<Mtu>(code);
}

Result<QpStep> ready_to_receive_step(const VerbsPort& port, const GidEntry& source,
                                     const PeerEndpoint& peer) {
  QpStep step;
  ibv_qp_attr& attributes = step.attributes;
  attributes.qp_state = IBV_QPS_RTR;
  // Soft-RoCE drops what was cut at another size than its own.
  attributes.path_mtu = ibv_mtu_of(std::min(peer.mtu, port.port.mtu));
  attributes.dest_qp_num = peer.queue_pair.value;
  attributes.rq_psn = peer.first_psn.value;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = port.port.number.value;
  path.sl = port.path.service_level;
  path.is_global = 1;
  std::memcpy(path.grh.dgid.raw, peer.gid.bytes.data(), sizeof path.grh.dgid.raw);
  path.grh.sgid_index = static_cast<std::uint8_t>(source.index);
  path.grh.hop_limit = peer.direct ? 1 : kHopLimitRouted;
  path.grh.traffic_class = port.path.traffic_class;
  if (port.infiniband) {
    const std::optional<std::uint16_t> lid = lid_of_mac(peer.mac);
    if (!lid) return Error{Errc::kUnsupported, "an InfiniBand peer that does not tell its LID"};
    path.dlid = *lid;
  }
  step.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return step;
}

QpStep ready_to_send_step(const PathOptions& path, PacketSeq first_psn) {
  QpStep step;
  step.attributes.qp_state = IBV_QPS_RTS;
  step.attributes.timeout = path.ack_timeout;
  step.attributes.retry_cnt = path.retry_count;
  step.attributes.rnr_retry = path.rnr_retry;
  step.attributes.sq_psn = first_psn.value;
  step.attributes.max_rd_atomic = 1;
  step.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
  return step;
}

}  // namespace fairlead::rdma::verbs
