#include "rdma/verbs/rdma_netns.h"

#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/linux/handle.h"

namespace fairlead::rdma::verbs {
namespace {

using Socket = Handle<nl_sock, nl_socket_free>;

int take_mode(nl_msg* message, void* into) noexcept {
  nlmsghdr* header = nlmsg_hdr(message);
  const nlattr* mode = nlmsg_find_attr(header, 0, RDMA_NLDEV_SYS_ATTR_NETNS_MODE);
  if (mode != nullptr) *static_cast<bool*>(into) = nla_get_u8(mode) == 0;
  return NL_OK;
}

}  // namespace

bool devices_are_exclusive() {
  const Socket socket(nl_socket_alloc());
  if (socket == nullptr || nl_connect(socket.get(), NETLINK_RDMA) < 0) return false;
  bool exclusive = false;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_mode, &exclusive);
  constexpr int kAsk = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);
  // The answer of this command carries no acknowledgement of its own.
  nl_socket_disable_auto_ack(socket.get());
  if (nl_send_simple(socket.get(), kAsk, 0, nullptr, 0) < 0) return false;
  return nl_recvmsgs_default(socket.get()) >= 0 && exclusive;
}

}  // namespace fairlead::rdma::verbs
