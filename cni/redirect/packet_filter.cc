#include "cni/redirect/packet_filter.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "cni/netlink/socket.h"
#include "cni/redirect/packet_filter_plan.h"

namespace fairlead::cni {
namespace {

using netlink::Attribute;
using netlink::Bytes;
using netlink::find;
using netlink::Message;

tl::unexpected<PluginError> failed(const std::string& what, const Error& error) {
  return fail(Code::kRedirect, "packet filter: " + what + ": " + to_string(error));
}

Outcome<void> commit(const Batch& batch, bool may_be_missing) {
  auto socket = netlink::Socket::open(NETLINK_NETFILTER);
  if (!socket) return failed("socket", socket.error());
  const Result<netlink::Refusal> refusal = socket->transact(batch.request, batch.acknowledged);
  if (!refusal) return failed("transaction", refusal.error());
  if (refusal->error_number == 0) return {};
  if (may_be_missing && refusal->error_number == ENOENT) return {};
  const std::string name = refusal->sequence < batch.names.size() ? batch.names[refusal->sequence]
                                                                  : std::string("transaction");
  return failed(name, system_error("refused", refusal->error_number));
}

// Requests the objects of the plugin's table only; older kernels filter by family alone.
Outcome<std::vector<std::byte>> dump(netlink::Socket& socket, std::uint16_t type,
                                     const std::string& set = {}) {
  netlink::Writer request;
  const nfgenmsg family = {NFPROTO_INET, NFNETLINK_V0, 0};
  request.begin(static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | type), NLM_F_DUMP, 1,
                family);
  // The table has attribute 1 in all of these messages; in requests for elements, the set has
  // attribute 2.
  static_assert(NFTA_RULE_TABLE == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_SET_TABLE == 1 &&
                NFTA_SET_ELEM_LIST_TABLE == 1);
  request.text(NFTA_RULE_TABLE, kTableName);
  if (!set.empty()) request.text(NFTA_SET_ELEM_LIST_SET, set);
  request.end();
  auto answer = socket.query(request);
  if (!answer && answer.error().system == ENOENT) return std::vector<std::byte>();
  if (!answer) return failed("reading it back", answer.error());
  return std::move(*answer);
}

// Calls `take` with the attributes of each object of the plugin's table.
template <class Take>
void each_object(Bytes answer, Take take) {
  Message message;
  while (netlink::next(answer, message)) {
    if (message.header.nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES) continue;
    const Bytes attributes = netlink::attributes_of(message, sizeof(nfgenmsg));
    if (netlink::text_of(find(attributes, NFTA_RULE_TABLE)) == kTableName) take(attributes);
  }
}

std::string line(const std::string& name, Bytes content) {
  return name + " " + to_hex(fingerprint(content));
}

// A list of elements as pairs of key and flags, because kernels add attributes as they grow.
std::vector<std::byte> elements_of(Bytes attributes) {
  std::vector<std::byte> content;
  Bytes rest = find(attributes, NFTA_SET_ELEM_LIST_ELEMENTS);
  Attribute element;
  while (netlink::next(rest, element)) {
    for (const std::uint16_t type : {NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_FLAGS}) {
      const Bytes value = find(element.value, type);
      content.insert(content.end(), value.begin(), value.end());
    }
  }
  return content;
}

}  // namespace

Outcome<TableReading> install_packet_filter(const bpf::RedirectRules& rules) {
  SMC_TRY(commit(install_batch(rules), false));
  return read_packet_filter();
}

Outcome<void> remove_packet_filter() { return commit(remove_batch(), true); }

Outcome<TableReading> read_packet_filter() {
  auto socket = netlink::Socket::open(NETLINK_NETFILTER);
  if (!socket) return failed("socket", socket.error());
  TableReading reading;
  const auto chains = SMC_TRY(dump(*socket, NFT_MSG_GETCHAIN));
  each_object(chains, [&](Bytes chain) {
    reading.push_back(line("chain " + std::string(netlink::text_of(find(chain, NFTA_CHAIN_NAME))),
                           find(chain, NFTA_CHAIN_HOOK)));
  });
  const auto sets = SMC_TRY(dump(*socket, NFT_MSG_GETSET));
  std::vector<std::string> names;
  each_object(sets,
              [&](Bytes set) { names.emplace_back(netlink::text_of(find(set, NFTA_SET_NAME))); });
  for (const std::string& name : names) {
    const auto elements = SMC_TRY(dump(*socket, NFT_MSG_GETSETELEM, name));
    std::vector<std::byte> content;
    each_object(elements, [&](Bytes part) {
      const std::vector<std::byte> more = elements_of(part);
      content.insert(content.end(), more.begin(), more.end());
    });
    reading.push_back(line("set " + name, content));
  }
  const auto rules = SMC_TRY(dump(*socket, NFT_MSG_GETRULE));
  std::map<std::string, unsigned, std::less<>> counts;
  each_object(rules, [&](Bytes rule) {
    const std::string chain(netlink::text_of(find(rule, NFTA_RULE_CHAIN)));
    reading.push_back(line("rule " + chain + " " + std::to_string(++counts[chain]),
                           find(rule, NFTA_RULE_EXPRESSIONS)));
  });
  std::sort(reading.begin(), reading.end());
  return reading;
}

}  // namespace fairlead::cni
