#include "rdma/verbs/pnet.h"

#include <linux/smc.h>
#include <netlink/attr.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <algorithm>

#include "base/linux/handle.h"

namespace fairlead::rdma::verbs {
namespace {

using Socket = Handle<nl_sock, nl_socket_free>;

constexpr std::size_t kEntriesMax = 4096;

// The kernel writes "n/a" and 255 for the half that a line does not have.
constexpr const char* kNone = "n/a";

std::string text_of(nlattr* attribute) {
  if (attribute == nullptr) return "";
  std::string text(static_cast<const char*>(nla_data(attribute)),
                   static_cast<std::size_t>(nla_len(attribute)));
  if (const std::size_t end = text.find('\0'); end != std::string::npos) text.resize(end);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text == kNone ? "" : text;
}

int take_entry(nl_msg* message, void* into) noexcept {
  auto& table = *static_cast<std::vector<PnetEntry>*>(into);
  nlattr* attributes[SMC_PNETID_MAX + 1] = {};
  if (table.size() >= kEntriesMax ||
      genlmsg_parse(nlmsg_hdr(message), 0, attributes, SMC_PNETID_MAX, nullptr) < 0)
    return NL_OK;
  PnetEntry entry;
  entry.id = text_of(attributes[SMC_PNETID_NAME]);
  entry.rnic = text_of(attributes[SMC_PNETID_IBNAME]);
  entry.interface_name = text_of(attributes[SMC_PNETID_ETHNAME]);
  if (attributes[SMC_PNETID_IBPORT] != nullptr && !entry.rnic.empty())
    entry.port = PortNumber{nla_get_u8(attributes[SMC_PNETID_IBPORT])};
  if (!entry.id.empty()) table.push_back(std::move(entry));
  return NL_OK;
}

const PnetEntry* of_interface(std::span<const PnetEntry> table, const std::string& name) {
  for (const PnetEntry& entry : table)
    if (entry.rnic.empty() && !name.empty() && entry.interface_name == name) return &entry;
  return nullptr;
}

// What the table says of the port: by its own line, or by that of its interface.
const PnetEntry* of_port(std::span<const PnetEntry> table, const PnetQuestion& question) {
  for (const PnetEntry& entry : table)
    if (entry.rnic == question.rnic && entry.port == question.port) return &entry;
  return of_interface(table, question.rnic_interface);
}

bool is_handed(const PnetQuestion& question) {
  const std::vector<RnicPortName>& rnics = question.handed.rnics;
  const RnicPortName asked{question.rnic, question.port};
  return rnics.empty() || std::find(rnics.begin(), rnics.end(), asked) != rnics.end();
}

}  // namespace

Result<std::vector<PnetEntry>> read_pnet_table() {
  const Socket socket(nl_socket_alloc());
  if (socket == nullptr) return Error{Errc::kExhausted, "netlink socket"};
  if (genl_connect(socket.get()) < 0) return Error{Errc::kSystem, "connecting to generic netlink"};
  const int family = genl_ctrl_resolve(socket.get(), SMCR_GENL_FAMILY_NAME);
  if (family < 0) return Error{Errc::kNotFound, "the kernel's PNET table"};
  std::vector<PnetEntry> table;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_entry, &table);
  if (genl_send_simple(socket.get(), family, SMC_PNETID_GET, SMCR_GENL_FAMILY_VERSION, NLM_F_DUMP) <
          0 ||
      nl_recvmsgs_default(socket.get()) < 0)
    return Error{Errc::kSystem, "reading the kernel's PNET table"};
  return table;
}

PnetAnswer pnet_of(const PnetQuestion& question, std::span<const PnetEntry> table) {
  const PnetEntry* port = of_port(table, question);
  const PnetEntry* route = of_interface(table, question.route_interface);
  const std::string ours = !question.configured.empty()    ? question.configured
                           : !question.handed.pnet.empty() ? question.handed.pnet
                           : route != nullptr              ? route->id
                                                           : "";
  if (port != nullptr && !ours.empty() && port->id != ours)
    return {port->id, "kernel table", false};
  const bool usable = question.handed.pnet != ours || is_handed(question);
  if (!question.configured.empty()) return {ours, "configuration", usable};
  if (!question.handed.pnet.empty()) return {ours, "node", usable};
  if (port != nullptr) return {port->id, "kernel table", true};
  const bool on_route =
      !question.rnic_interface.empty() && question.rnic_interface == question.route_interface;
  if (on_route) return {"", "route", true};
  // Our connections belong to a network that this port is not known to be in.
  return {"", "", route == nullptr};
}

}  // namespace fairlead::rdma::verbs
