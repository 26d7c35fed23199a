#include "rdma/verbs/loopback_alias.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include "base/linux/handle.h"

namespace fairlead::rdma::verbs {
namespace {

using Socket = Handle<nl_sock, nl_socket_free>;

constexpr int kLoopbackIndex = 1;  // in every network namespace

int take_alias(nl_msg* message, void* into) noexcept {
  nlmsghdr* header = nlmsg_hdr(message);
  if (header->nlmsg_type != RTM_NEWLINK) return NL_OK;
  if (const nlattr* alias = nlmsg_find_attr(header, sizeof(ifinfomsg), IFLA_IFALIAS)) {
    const std::string_view text(static_cast<const char*>(nla_data(alias)),
                                static_cast<std::size_t>(nla_len(alias)));
    *static_cast<std::string*>(into) = text.substr(0, text.find('\0'));
  }
  return NL_OK;
}

}  // namespace

Result<std::string> read_loopback_alias() {
  const Socket socket(nl_socket_alloc());
  if (socket == nullptr) return Error{Errc::kExhausted, "netlink socket"};
  if (nl_connect(socket.get(), NETLINK_ROUTE) < 0)
    return Error{Errc::kSystem, "connecting to rtnetlink"};
  ifinfomsg loopback{};
  loopback.ifi_family = AF_UNSPEC;
  loopback.ifi_index = kLoopbackIndex;
  std::string alias;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_alias, &alias);
  if (nl_send_simple(socket.get(), RTM_GETLINK, 0, &loopback, sizeof loopback) < 0 ||
      nl_recvmsgs_default(socket.get()) < 0)
    return Error{Errc::kSystem, "reading the alias of lo"};
  return alias;
}

}  // namespace fairlead::rdma::verbs
