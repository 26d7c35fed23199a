#include "cni/redirect/link_alias.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <mutex>

#include "base/hand_over.h"
#include "cni/netlink/socket.h"

namespace fairlead::cni {
namespace {

using netlink::find;

constexpr int kLoopbackIndex = 1;  // in every network namespace

ifinfomsg loopback() {
  ifinfomsg family{};
  family.ifi_family = AF_UNSPEC;
  family.ifi_index = kLoopbackIndex;
  return family;
}

}  // namespace

Result<std::string> read_loopback_alias() {
  netlink::Socket socket = SMC_TRY(netlink::Socket::open(NETLINK_ROUTE));
  netlink::Writer request;
  request.begin(RTM_GETLINK, 0, 1, loopback());
  request.end();
  const std::vector<std::byte> answer = SMC_TRY(socket.query(request));
  netlink::Bytes rest = answer;
  netlink::Message message;
  while (netlink::next(rest, message)) {
    if (message.header.nlmsg_type != RTM_NEWLINK) continue;
    const netlink::Bytes alias =
        find(netlink::attributes_of(message, sizeof(ifinfomsg)), IFLA_IFALIAS);
    return std::string(netlink::text_of(alias));
  }
  return Error{Errc::kNotFound, "interface lo"};
}

Result<void> write_loopback_alias(std::string_view alias) {
  netlink::Socket socket = SMC_TRY(netlink::Socket::open(NETLINK_ROUTE));
  netlink::Writer request;
  request.begin(RTM_SETLINK, NLM_F_ACK, 1, loopback());
  // The kernel takes an empty alias only without a terminator.
  request.attribute(IFLA_IFALIAS, std::as_bytes(std::span(alias)));
  request.end();
  const netlink::Refusal refusal = SMC_TRY(socket.transact(request, 1));
  if (refusal.error_number != 0) return system_error("alias of lo", refusal.error_number);
  return {};
}

Result<bool> change_note(const std::function<std::string(const std::string&)>& change) {
  // A change between reading and writing the note would be lost.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string before = SMC_TRY(read_loopback_alias());
  if (!before.starts_with(kAliasPrefix)) return Error{Errc::kNotFound, "note of the plugin"};
  const std::string after = change(before);
  if (after == before) return false;
  SMC_TRY(write_loopback_alias(after));
  return true;
}

}  // namespace fairlead::cni
