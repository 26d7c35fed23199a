#include "sockets.h"

#include <arpa/inet.h>
#include <linux/smc_diag.h>
#include <linux/sock_diag.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace lab {
namespace {

using nlohmann::json;

constexpr int kAddressFamilySmc = 43;

std::string endpoint(const __be32* address, __be16 port) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, address, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(port));
}

// Attributes may come unaligned and, from a later kernel, longer.
template <class T>
bool copy(const nlattr* attribute, T& into) {
  return attribute != nullptr && nla_memcpy(&into, attribute, sizeof into) == sizeof into;
}

json cursor(const smc_diag_cursor& from) { return {{"wrap", from.wrap}, {"count", from.count}}; }

json describe(nlmsghdr* header) {
  const auto* socket = static_cast<const smc_diag_msg*>(nlmsg_data(header));
  nlattr* found[SMC_DIAG_MAX + 1] = {};
  nla_parse(found, SMC_DIAG_MAX, nlmsg_attrdata(header, sizeof *socket),
            nlmsg_attrlen(header, sizeof *socket), nullptr);
  constexpr const char* kModes[] = {"smcr", "tcp", "smcd"};
  json made{{"local", endpoint(socket->id.idiag_src, socket->id.idiag_sport)},
            {"peer", endpoint(socket->id.idiag_dst, socket->id.idiag_dport)},
            {"state", socket->diag_state},
            {"mode", socket->diag_mode <= SMC_DIAG_MODE_SMCD ? kModes[socket->diag_mode] : "?"}};
  if (smc_diag_conninfo info{}; copy(found[SMC_DIAG_CONNINFO], info)) {
    made["token"] = info.token;
    made["element_bytes"] = info.rmbe_size;
    made["peer_element_bytes"] = info.peer_rmbe_size;
    made["send_buffer_bytes"] = info.sndbuf_size;
    made["received_producer"] = cursor(info.rx_prod);
    made["received_consumer"] = cursor(info.rx_cons);
    made["sent_producer"] = cursor(info.tx_prod);
    made["sent_consumer"] = cursor(info.tx_cons);
    made["received_state_flags"] = info.rx_conn_state_flags;
    made["sent_state_flags"] = info.tx_conn_state_flags;
    made["received_producer_flags"] = info.rx_prod_flags;
    made["sent_producer_flags"] = info.tx_prod_flags;
  }
  if (smc_diag_fallback fallback{}; copy(found[SMC_DIAG_FALLBACK], fallback)) {
    made["reason"] = fallback.reason;
    made["peer_reason"] = fallback.peer_diagnosis;
  }
  return made;
}

[[noreturn]] void fail(const char* what, int error) {
  std::fprintf(stderr, "smc_state: %s: %s\n", what, nl_geterror(error));
  std::exit(1);
}

}  // namespace

json smc_sockets() {
  const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(),
                                                                   &nl_socket_free);
  if (const int error = nl_connect(socket.get(), NETLINK_SOCK_DIAG); error < 0) {
    fail("sock_diag", error);
  }
  auto sockets = json::array();
  nl_socket_disable_seq_check(socket.get());
  nl_socket_modify_cb(
      socket.get(), NL_CB_VALID, NL_CB_CUSTOM,
      [](nl_msg* received, void* argument) {
        static_cast<json*>(argument)->push_back(describe(nlmsg_hdr(received)));
        return static_cast<int>(NL_OK);
      },
      &sockets);
  smc_diag_req request{};
  request.diag_family = kAddressFamilySmc;
  request.diag_ext = 1U << (SMC_DIAG_CONNINFO - 1) | 1U << (SMC_DIAG_FALLBACK - 1);
  if (const int error =
          nl_send_simple(socket.get(), SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request, sizeof request);
      error < 0) {
    fail("sock_diag", error);
  }
  if (const int error = nl_recvmsgs_default(socket.get()); error < 0) {
    fail("sock_diag", error);
  }
  return sockets;
}

}  // namespace lab
