#include "rdma/verbs/verbs_ports.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma/verbs/device_judgement.h"
#include "rdma/verbs/routes.h"
#include "rdma/verbs/verbs_status.h"

namespace fairlead::rdma::verbs {
namespace {

GidType type_from(std::uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return GidType::kInfiniBand;
    case IBV_GID_TYPE_ROCE_V1:
      return GidType::kRoceV1;
    default:
      return GidType::kRoceV2;
  }
}

Result<std::vector<GidEntry>> read_gids(ibv_context& context, std::uint8_t number) {
  std::vector<ibv_gid_entry> table(kGidsMax);
  const ssize_t count = ibv_query_gid_table(&context, table.data(), table.size(), 0);
  if (count < 0) return system_error("ibv_query_gid_table", static_cast<int>(-count));
  table.resize(static_cast<std::size_t>(count));
  std::vector<GidEntry> gids;
  for (const ibv_gid_entry& entry : table) {
    // The address handle has eight bits for it.
    if (entry.port_num != number || entry.gid_index > 0xff) continue;
    GidEntry gid;
    std::memcpy(gid.gid.bytes.data(), entry.gid.raw, gid.gid.bytes.size());
    gid.type = type_from(entry.gid_type);
    gid.index = entry.gid_index;
    gid.netdev_index = entry.ndev_ifindex;
    gids.push_back(gid);
  }
  return gids;
}

Mac mac_from_node_guid(const ibv_context& context) {
  const __be64 guid = ibv_get_device_guid(context.device);
  std::array<std::uint8_t, 8> bytes;
  std::memcpy(bytes.data(), &guid, bytes.size());
  return mac_from_eui64(bytes).value_or(Mac{});
}

// Where the table cannot be read to its end, it has what was read.
std::vector<std::uint16_t> read_partitions(ibv_context& context, std::uint8_t number,
                                           std::uint16_t size) {
  std::vector<std::uint16_t> table;
  for (std::uint16_t i = 0; i < size; ++i) {
    __be16 key = 0;
    if (ibv_query_pkey(&context, number, i, &key) != 0) break;
    table.push_back(be16toh(key));
  }
  return table;
}

void choose_partition(ibv_context& context, const ibv_port_attr& attributes, VerbsPort& port) {
  port.partition_index = 0;
  if (!port.infiniband || !port.partition_key) return;
  const std::vector<std::uint16_t> table =
      read_partitions(context, port.port.number.value, attributes.pkey_tbl_len);
  const std::optional<std::uint16_t> index = partition_index(table, *port.partition_key);
  if (index)
    port.partition_index = *index;
  else if (port.port.fault == PortFault::kNone)
    port.port.fault = PortFault::kNoPartition;
}

}  // namespace

Result<void> read_port(ibv_context& context, std::uint8_t number, VerbsPort& port) {
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(&context, number, &attributes); error != 0)
    return system_error("ibv_query_port", error);
  const std::vector<GidEntry> table = SMC_TRY(read_gids(context, number));
  port.gids = allowed_gids(table, port.policy);
  port.infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
  port.port.number = PortNumber{number};
  port.port.state = attributes.state == IBV_PORT_ACTIVE ? PortState::kActive : PortState::kDown;
  port.port.mtu = std::min(mtu_from(attributes.active_mtu), port.path.mtu_max);
  std::vector<Gid> own;
  for (const InterfaceAddress& address : interface_addresses()) own.push_back(address.address);
  const std::optional<GidChoice> chosen = choose_gid(port.gids, own, port.named);
  port.port.gid = chosen ? chosen->entry.gid : Gid{};
  port.source = chosen ? chosen->source : GidSource::kTable;
  port.port.fault =
      judge_port(attributes.link_layer, table.size(), port.gids.size(), chosen.has_value());
  choose_partition(context, attributes, port);
  if (port.port.fault == PortFault::kLinkLayer) {
    port.gids.clear();
    port.port.gid = Gid{};
  }
  port.port.mac = port.infiniband ? mac_of_lid(attributes.lid)
                                  : mac_of_port(table).value_or(mac_from_node_guid(context));
  return {};
}

}  // namespace fairlead::rdma::verbs
