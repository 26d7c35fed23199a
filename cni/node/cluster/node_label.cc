#include "cni/node/cluster/node_label.h"

#include <string_view>
#include <utility>

#include "base/result.h"
#include "cni/node/cluster/api_call.h"
#include "cni/plugin/json_text.h"
#include "event/http/http_status.h"

namespace fairlead::cni::node {
namespace {

constexpr std::string_view kReadyLabel = "fairlead.io/ready";
constexpr std::string_view kPnetLabelPrefix = "fairlead.io/pnet.";

std::vector<std::string> labels_in(std::string_view node) {
  const auto json = parse_json(node);
  if (!json) return {};
  const Json& labels = member(member(*json, "metadata"), "labels");
  std::vector<std::string> names;
  if (labels.is_object())
    for (const auto& [name, value] : labels.items()) names.push_back(name);
  return names;
}

}  // namespace

std::string label_patch(bool ready, const std::vector<Pnet>& pnets,
                        const std::vector<std::string>& present) {
  Json labels = Json::object();
  for (const std::string& name : present)
    if (name == kReadyLabel || name.starts_with(kPnetLabelPrefix)) labels[name] = nullptr;
  labels[std::string(kReadyLabel)] = ready ? Json("true") : Json();
  if (ready)
    for (const Pnet& pnet : pnets) labels[std::string(kPnetLabelPrefix) + pnet.id] = "true";
  return to_text(Json{{"metadata", {{"labels", std::move(labels)}}}});
}

// The answer to a patch is the whole node, which shows the labels to remove.
Result<void, std::string> set_node_labels(const event::ApiServer& server, const std::string& node,
                                          bool ready, const std::vector<Pnet>& pnets) {
  const std::string wanted = label_patch(ready, pnets, {});
  event::HttpsRequest patch{"PATCH", "/api/v1/nodes/" + node, "", "application/merge-patch+json",
                            wanted};
  const std::string node_now = SMC_TRY(call_api(server, patch, http_status::kOk));
  patch.body = label_patch(ready, pnets, labels_in(node_now));
  if (patch.body != wanted) SMC_TRY(call_api(server, patch, http_status::kOk));
  return {};
}

}  // namespace fairlead::cni::node
