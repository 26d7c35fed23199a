// Queries and configures the kernel's SMC; JSON on standard output.
//
//   smc_state ueid add|remove NAME      user-defined EIDs
//   smc_state pnet add-netdev NAME NETDEV, pnet add-rnic NAME RNIC, pnet remove NAME
//   smc_state show                      {"stats", "fallbacks", "groups", "ueids", "sockets"}
//
// Interfaces: linux/smc.h (generic netlink), linux/smc_diag.h (sock_diag). Statistics count since
// the creation of the network namespace.
#include <linux/smc.h>
#include <linux/sock_diag.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "attributes.h"
#include "sockets.h"

namespace lab {
namespace {

using nlohmann::json;
using Socket = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using Message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;

constexpr Attribute kRmb[] = {{SMC_NLA_STATS_RMB_SIZE_SM_PEER_CNT, "small_at_peer"},
                              {SMC_NLA_STATS_RMB_SIZE_SM_CNT, "small"},
                              {SMC_NLA_STATS_RMB_FULL_PEER_CNT, "full_at_peer"},
                              {SMC_NLA_STATS_RMB_FULL_CNT, "full"},
                              {SMC_NLA_STATS_RMB_REUSE_CNT, "reused"},
                              {SMC_NLA_STATS_RMB_ALLOC_CNT, "allocated"},
                              {SMC_NLA_STATS_RMB_DGRADE_CNT, "downgraded"}};
constexpr Attribute kTechnology[] = {
    {SMC_NLA_STATS_T_CLNT_V1_SUCC, "client_v1"},
    {SMC_NLA_STATS_T_CLNT_V2_SUCC, "client_v2"},
    {SMC_NLA_STATS_T_SRV_V1_SUCC, "server_v1"},
    {SMC_NLA_STATS_T_SRV_V2_SUCC, "server_v2"},
    {SMC_NLA_STATS_T_URG_DATA_CNT, "urgent"},
    {SMC_NLA_STATS_T_RX_BYTES, "received_bytes"},
    {SMC_NLA_STATS_T_TX_BYTES, "sent_bytes"},
    {SMC_NLA_STATS_T_RX_CNT, "receives"},
    {SMC_NLA_STATS_T_TX_CNT, "sends"},
    {SMC_NLA_STATS_T_TX_RMB_STATS, "sending", Kind::kNested, kRmb},
    {SMC_NLA_STATS_T_RX_RMB_STATS, "receiving", Kind::kNested, kRmb}};
constexpr Attribute kStats[] = {{SMC_NLA_STATS_SMCR_TECH, "smcr", Kind::kNested, kTechnology},
                                {SMC_NLA_STATS_CLNT_HS_ERR_CNT, "client_handshake_errors"},
                                {SMC_NLA_STATS_SRV_HS_ERR_CNT, "server_handshake_errors"}};
constexpr Attribute kFallback[] = {{SMC_NLA_FBACK_STATS_SRV_CNT, "servers"},
                                   {SMC_NLA_FBACK_STATS_CLNT_CNT, "clients"},
                                   {SMC_NLA_FBACK_STATS_RSN_CODE, "reason"},
                                   {SMC_NLA_FBACK_STATS_RSN_CNT, "count"},
                                   {SMC_NLA_FBACK_STATS_TYPE, "server"}};
constexpr Attribute kGroupV2[] = {{SMC_NLA_LGR_V2_VER, "version"},
                                  {SMC_NLA_LGR_V2_REL, "release"},
                                  {SMC_NLA_LGR_V2_NEG_EID, "eid", Kind::kText},
                                  {SMC_NLA_LGR_V2_PEER_HOST, "peer_host", Kind::kText}};
constexpr Attribute kGroup[] = {{SMC_NLA_LGR_R_ID, "id"},
                                {SMC_NLA_LGR_R_ROLE, "role"},
                                {SMC_NLA_LGR_R_TYPE, "type"},
                                {SMC_NLA_LGR_R_PNETID, "pnet", Kind::kText},
                                {SMC_NLA_LGR_R_CONNS_NUM, "connections"},
                                {SMC_NLA_LGR_R_V2_COMMON, "v2", Kind::kNested, kGroupV2}};
constexpr Attribute kLink[] = {{SMC_NLA_LINK_ID, "id"},
                               {SMC_NLA_LINK_IB_DEV, "device", Kind::kText},
                               {SMC_NLA_LINK_IB_PORT, "port"},
                               {SMC_NLA_LINK_GID, "gid", Kind::kText},
                               {SMC_NLA_LINK_PEER_GID, "peer_gid", Kind::kText},
                               {SMC_NLA_LINK_CONN_CNT, "connections"},
                               {SMC_NLA_LINK_STATE, "state"}};
constexpr Attribute kEid[] = {{SMC_NLA_EID_TABLE_ENTRY, "eid", Kind::kText}};
constexpr Attribute kTop[] = {{SMC_GEN_LGR_SMCR, "group", Kind::kNested, kGroup},
                              {SMC_GEN_LINK_SMCR, "link", Kind::kNested, kLink},
                              {SMC_GEN_STATS, "stats", Kind::kNested, kStats},
                              {SMC_GEN_FBACK_STATS, "fallback", Kind::kNested, kFallback}};

[[noreturn]] void fail(const char* what, int error) {
  std::fprintf(stderr, "smc_state: %s: %s\n", what, nl_geterror(error));
  std::exit(1);
}

class Family {
 public:
  explicit Family(const char* name) : socket_(nl_socket_alloc(), &nl_socket_free) {
    if (const int error = genl_connect(socket_.get()); error < 0) {
      fail("genl_connect", error);
    }
    id_ = genl_ctrl_resolve(socket_.get(), name);
    if (id_ < 0) {
      fail(name, id_);
    }
  }

  Message message(std::uint8_t command, int flags) const {
    Message made(nlmsg_alloc(), &nlmsg_free);
    genlmsg_put(made.get(), NL_AUTO_PORT, NL_AUTO_SEQ, id_, 0, flags, command, 1);
    return made;
  }

  // Sends, and waits for the kernel's acknowledgement.
  void command(const Message& message) const {
    if (const int error = nl_send_sync(socket_.get(), nlmsg_get(message)); error < 0) {
      fail("the kernel refuses", error);
    }
  }

  void dump(std::uint8_t command, std::span<const Attribute> table,
            const std::function<void(const json&)>& sink) const {
    struct Call {
      std::span<const Attribute> table;
      const std::function<void(const json&)>& sink;
    } call{table, sink};
    nl_socket_disable_seq_check(socket_.get());
    nl_socket_modify_cb(
        socket_.get(), NL_CB_VALID, NL_CB_CUSTOM,
        [](nl_msg* received, void* argument) {
          const auto* the_call = static_cast<Call*>(argument);
          auto* header = static_cast<genlmsghdr*>(nlmsg_data(nlmsg_hdr(received)));
          the_call->sink(attributes_to_json(genlmsg_attrdata(header, 0), genlmsg_attrlen(header, 0),
                                            the_call->table));
          return static_cast<int>(NL_OK);
        },
        &call);
    const Message request = message(command, NLM_F_DUMP);
    if (const int error = nl_send_auto(socket_.get(), request.get()); error < 0) {
      fail("send", error);
    }
    if (const int error = nl_recvmsgs_default(socket_.get()); error < 0) {
      fail("dump", error);
    }
  }

 private:
  // nl_send_sync() takes the message over.
  static nl_msg* nlmsg_get(const Message& message) {
    ::nlmsg_get(message.get());
    return message.get();
  }

  Socket socket_;
  int id_ = 0;
};

json show() {
  const Family family(SMC_GENL_FAMILY_NAME);
  json all{{"stats", json::object()},
           {"fallbacks", json::array()},
           {"groups", json::array()},
           {"ueids", json::array()},
           {"sockets", smc_sockets()}};
  family.dump(SMC_NETLINK_GET_STATS, kTop,
              [&](const json& found) { all["stats"] = found.value("stats", json::object()); });
  family.dump(SMC_NETLINK_GET_FBACK_STATS, kTop, [&](const json& found) {
    all["fallbacks"].push_back(found.value("fallback", json::object()));
  });
  family.dump(SMC_NETLINK_GET_LINK_SMCR, kTop, [&](const json& found) {
    if (found.contains("group")) {
      all["groups"].push_back(found["group"]);
      all["groups"].back()["links"] = json::array();
    }
    if (found.contains("link") && !all["groups"].empty()) {
      all["groups"].back()["links"].push_back(found["link"]);
    }
  });
  family.dump(SMC_NETLINK_DUMP_UEID, kEid,
              [&](const json& found) { all["ueids"].push_back(found.value("eid", "")); });
  return all;
}

void change_ueid(std::uint8_t command, const char* name) {
  const Family family(SMC_GENL_FAMILY_NAME);
  const Message message = family.message(command, 0);
  std::string padded = name;
  padded.resize(SMC_MAX_EID_LEN, ' ');  // the kernel wants the form that goes over the wire
  nla_put_string(message.get(), SMC_NLA_EID_TABLE_ENTRY, padded.c_str());
  family.command(message);
}

void add_pnet(const char* name, const std::string& device, bool is_rnic) {
  const Family family(SMCR_GENL_FAMILY_NAME);
  const Message message = family.message(SMC_PNETID_ADD, 0);
  nla_put_string(message.get(), SMC_PNETID_NAME, name);
  if (is_rnic) {
    nla_put_string(message.get(), SMC_PNETID_IBNAME, device.c_str());
    nla_put_u8(message.get(), SMC_PNETID_IBPORT, 1);
  } else {
    nla_put_string(message.get(), SMC_PNETID_ETHNAME, device.c_str());
  }
  family.command(message);
}

void remove_pnet(const char* name) {
  const Family family(SMCR_GENL_FAMILY_NAME);
  const Message message = family.message(SMC_PNETID_DEL, 0);
  nla_put_string(message.get(), SMC_PNETID_NAME, name);
  family.command(message);
}

int run(std::span<char*> words) {
  const auto is = [&](std::size_t index, std::string_view word) {
    return index < words.size() && words[index] == word;
  };
  if (is(0, "show") && words.size() == 1) {
    std::puts(show().dump(1).c_str());
  } else if (is(0, "ueid") && is(1, "add") && words.size() == 3) {
    change_ueid(SMC_NETLINK_ADD_UEID, words[2]);
  } else if (is(0, "ueid") && is(1, "remove") && words.size() == 3) {
    change_ueid(SMC_NETLINK_REMOVE_UEID, words[2]);
  } else if (is(0, "pnet") && is(1, "add-netdev") && words.size() == 4) {
    add_pnet(words[2], words[3], false);
  } else if (is(0, "pnet") && is(1, "add-rnic") && words.size() == 4) {
    add_pnet(words[2], words[3], true);
  } else if (is(0, "pnet") && is(1, "remove") && words.size() == 3) {
    remove_pnet(words[2]);
  } else {
    std::fprintf(stderr,
                 "usage: smc_state show | ueid add|remove NAME |\n"
                 "       pnet add-netdev|add-rnic NAME DEVICE | pnet remove NAME\n");
    return 64;
  }
  return 0;
}

}  // namespace
}  // namespace lab

int main(int argc, char** argv) {
  return lab::run(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
}
