#include "cni/rnics/kernel_pnet.h"

#include <linux/genetlink.h>
#include <linux/smc.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "cni/netlink/socket.h"

namespace fairlead::cni {
namespace {

using netlink::find;
using netlink::Writer;

genlmsghdr command(std::uint8_t number, std::uint8_t version) {
  return genlmsghdr{.cmd = number, .version = version, .reserved = 0};
}

struct Family {
  netlink::Socket socket;
  std::uint16_t id = 0;
};

Result<Family> open_family() {
  Family family{SMC_TRY(netlink::Socket::open(NETLINK_GENERIC))};
  Writer request;
  request.begin(GENL_ID_CTRL, 0, 1, command(CTRL_CMD_GETFAMILY, 1));
  request.text(CTRL_ATTR_FAMILY_NAME, SMCR_GENL_FAMILY_NAME);
  request.end();
  auto answer = family.socket.query(request);
  if (!answer) return Error{Errc::kNotFound, "SMC in the kernel", answer.error().system};
  netlink::Bytes rest = *answer;
  netlink::Message message;
  while (netlink::next(rest, message)) {
    const netlink::Bytes id =
        find(netlink::attributes_of(message, sizeof(genlmsghdr)), CTRL_ATTR_FAMILY_ID);
    if (id.size() == sizeof family.id) std::memcpy(&family.id, id.data(), sizeof family.id);
  }
  if (family.id == 0) return Error{Errc::kNotFound, "SMC in the kernel"};
  return family;
}

Result<int> change(Family& family, std::uint8_t number, const std::string& pnet,
                   const std::string& interface) {
  Writer request;
  request.begin(family.id, NLM_F_ACK, 1, command(number, SMCR_GENL_FAMILY_VERSION));
  request.text(SMC_PNETID_NAME, pnet);
  if (!interface.empty()) request.text(SMC_PNETID_ETHNAME, interface);
  request.end();
  const netlink::Refusal refusal = SMC_TRY(family.socket.transact(request, 1));
  return refusal.error_number;
}

Result<std::string> read_from(Family& family, const std::string& interface) {
  Writer request;
  request.begin(family.id, NLM_F_DUMP, 1, command(SMC_PNETID_GET, SMCR_GENL_FAMILY_VERSION));
  request.end();
  const std::vector<std::byte> answer = SMC_TRY(family.socket.query(request));
  netlink::Bytes rest = answer;
  netlink::Message message;
  while (netlink::next(rest, message)) {
    const netlink::Bytes attributes = netlink::attributes_of(message, sizeof(genlmsghdr));
    if (netlink::text_of(find(attributes, SMC_PNETID_ETHNAME)) == interface)
      return std::string(netlink::text_of(find(attributes, SMC_PNETID_NAME)));
  }
  return std::string();
}

}  // namespace

Result<void> add_kernel_pnet(const std::string& pnet, const std::string& interface) {
  Family family = SMC_TRY(open_family());
  const int refused = SMC_TRY(change(family, SMC_PNETID_ADD, pnet, interface));
  if (refused == 0) return {};
  if (refused != EEXIST) return system_error("PNET entry", refused);
  const std::string other = SMC_TRY(read_from(family, interface));
  if (other == pnet) return {};
  return Error{Errc::kWrongState, "the interface has another PNET", EEXIST};
}

Result<std::string> read_kernel_pnet(const std::string& interface) {
  Family family = SMC_TRY(open_family());
  return read_from(family, interface);
}

Result<void> remove_kernel_pnet(const std::string& pnet) {
  Family family = SMC_TRY(open_family());
  const int refused = SMC_TRY(change(family, SMC_PNETID_DEL, pnet, ""));
  if (refused == 0 || refused == ENOENT) return {};
  return system_error("PNET entry", refused);
}

}  // namespace fairlead::cni
