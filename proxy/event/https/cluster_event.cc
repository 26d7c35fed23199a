#include "event/https/cluster_event.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/utc_time.h"

namespace fairlead::event {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMessageBytesMax = 1024;

}  // namespace

std::string cluster_event_path(const ClusterEvent& event) {
  return "/api/v1/namespaces/" + event.name_space + "/events";
}

std::string cluster_event_body(const ClusterEvent& event) {
  const std::string now = utc_text(std::time(nullptr));
  Json source = {{"component", event.component}};
  if (!event.host.empty()) source["host"] = event.host;
  const Json body = {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", {{"generateName", event.component + "."}, {"namespace", event.name_space}}},
      {"involvedObject",
       {{"apiVersion", event.about.api_version},
        {"kind", event.about.kind},
        {"name", event.about.name},
        {"namespace", event.name_space},
        {"uid", event.about.uid}}},
      {"type", event.warning ? "Warning" : "Normal"},
      {"reason", event.reason},
      {"message", event.message.substr(0, kMessageBytesMax)},
      {"source", source},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fairlead::event
