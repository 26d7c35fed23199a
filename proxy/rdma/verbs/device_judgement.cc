#include "rdma/verbs/device_judgement.h"

#include <cerrno>

namespace fairlead::rdma::verbs {

Result<void> judge_transport(ibv_transport_type transport) {
  switch (transport) {
    case IBV_TRANSPORT_IWARP:
      return Error{Errc::kUnsupported, "an iWARP device: SMC-R needs RoCE or InfiniBand"};
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP:
      return Error{Errc::kUnsupported, "a usNIC device has no reliable connected queue pairs"};
    case IBV_TRANSPORT_IB:
    case IBV_TRANSPORT_UNKNOWN:
    case IBV_TRANSPORT_UNSPECIFIED:
      break;
  }
  return {};
}

Result<void> judge_limits(const ibv_device_attr& limits) {
  if (limits.phys_port_cnt == 0) return Error{Errc::kUnsupported, "the device has no port"};
  if (limits.max_qp <= 0 || limits.max_qp_wr <= 0)
    return Error{Errc::kUnsupported, "the device has no queue pairs"};
  return {};
}

bool has_shared_receive_queues(const ibv_device_attr& limits) {
  return limits.max_srq > 0 && limits.max_srq_wr > 0;
}

Error judge_trial(const char* call, int error_number) noexcept {
  if (error_number == EOPNOTSUPP || error_number == ENOSYS || error_number == EINVAL)
    return Error{Errc::kUnsupported, "the device refuses reliable connected queue pairs",
                 error_number};
  return system_error(call, error_number);
}

std::optional<std::uint16_t> partition_index(std::span<const std::uint16_t> table,
                                             std::uint16_t key) {
  constexpr std::uint16_t kFullMember = 0x8000;
  std::optional<std::uint16_t> limited;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & ~kFullMember) != key) continue;
    if ((table[i] & kFullMember) != 0) return static_cast<std::uint16_t>(i);
    if (!limited) limited = static_cast<std::uint16_t>(i);
  }
  return limited;
}

PortFault judge_port(std::uint8_t link_layer, std::size_t table_size, std::size_t allowed,
                     bool chosen) {
  if (link_layer != IBV_LINK_LAYER_ETHERNET && link_layer != IBV_LINK_LAYER_INFINIBAND)
    return PortFault::kLinkLayer;
  if (chosen) return PortFault::kNone;
  return allowed < table_size ? PortFault::kGidsExcluded : PortFault::kNoGid;
}

}  // namespace fairlead::rdma::verbs
