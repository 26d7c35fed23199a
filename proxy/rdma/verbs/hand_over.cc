#include "rdma/verbs/hand_over.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <charconv>

#include "base/handle.h"
#include "base/pnet_id.h"

namespace fairlead::rdma::verbs {
namespace {

using Socket = Handle<nl_sock, nl_socket_free>;

constexpr std::string_view kVersion = "smc1";
constexpr int kLoopbackIndex = 1;  // in every network namespace

// Takes what comes before `separator` off the front.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::optional<HandedRnic> parse_rnic(std::string_view text) {
  const std::string_view name = take(text, '/');
  std::uint8_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (name.empty() || error != std::errc() || end != text.data() + text.size() || port == 0)
    return std::nullopt;
  return HandedRnic{std::string(name), PortNumber{port}};
}

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

std::optional<HandOver> parse_hand_over(std::string_view alias) {
  if (take(alias, ';') != kVersion) return std::nullopt;
  HandOver note;
  while (!alias.empty()) {
    std::string_view value = take(alias, ';');
    const std::string_view key = take(value, '=');
    if (key == "pnet") {
      note.pnet = canonical_pnet(value);
      if (note.pnet.empty()) return std::nullopt;
    } else if (key == "rnic") {
      while (!value.empty()) {
        std::optional<HandedRnic> rnic = parse_rnic(take(value, ','));
        if (!rnic) return std::nullopt;
        note.rnics.push_back(std::move(*rnic));
      }
    }
  }
  return note;
}

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
