// The plugin's standard input, up to the messages that it would send to the kernel. Properties: a
// refusal has a code of the specification or of Fairlead, and a message without control characters.
// Accepted input can be planned, and the plan is a list of complete messages.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cni/plugin/pod_plan.h"
#include "cni/plugin/request.h"
#include "cni/redirect/packet_filter_plan.h"
#include "cni/state/state.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead::cni;

void check_refusal(const PluginError& error) {
  SMC_ASSERT(!error.message.empty());
  for (const char c : error.message) SMC_ASSERT(c >= ' ', c);
  // The names of keys are the input's.
  fairlead::fuzz::reached("refused with code " + std::to_string(static_cast<unsigned>(error.code)));
}

void check_plan(const Request& request, const NodeConfig& config, const Wishes& wishes) {
  const Json none = Json::object();
  const Json& result = request.previous_result ? *request.previous_result : none;
  const Batch batch = install_batch(redirect_rules(config, wishes, addresses_of(result)));
  netlink::Bytes rest = batch.request.bytes();
  netlink::Message message;
  std::size_t count = 0;
  while (netlink::next(rest, message)) ++count;
  SMC_ASSERT(rest.empty() && count == batch.names.size(), rest.size(), count);
  const PnetChoice choice = choose_pnet(
      config, wishes, "shop", {{{"rxe0", fairlead::PortNumber{1}}, "eth0", "0a0b0c0d0e0f"}});
  const std::string alias = fairlead::to_alias(choice.note);
  SMC_ASSERT(alias.size() <= fairlead::kAliasBytesMax, alias.size());
  const auto read = fairlead::parse_alias(alias);
  SMC_ASSERT(read && read->pnet == choice.note.pnet);
}

void check_call(const char* verb, std::string_view input) {
  const StringMap environment = {{"CNI_COMMAND", verb},
                                 {"CNI_CONTAINERID", "box"},
                                 {"CNI_NETNS", "/run/netns/x"},
                                 {"CNI_IFNAME", "eth0"},
                                 {"CNI_ARGS", std::string(input.substr(0, 64))}};
  const auto request = parse_request(environment, input);
  if (!request) return check_refusal(request.error());
  const auto config = read_node_config(request->config);
  if (!config) return check_refusal(config.error());
  const auto wishes = read_wishes(request->annotations.value_or(StringMap()));
  if (!wishes) return check_refusal(wishes.error());
  fairlead::fuzz::reached("planned: " + std::string(to_string(request->verb)));
  if (request->annotations) fairlead::fuzz::reached("annotations");
  if (request->previous_result) fairlead::fuzz::reached("previous result");
  if (!request->valid.empty()) fairlead::fuzz::reached("valid attachments");
  check_plan(*request, config->config, *wishes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const char* verb : {"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"})
    check_call(verb, input);
  if (parse_state(input)) fairlead::fuzz::reached("state");
  return 0;
}
