#include "injector/cluster.h"

#include <utility>

#include "event/http/http_status.h"
#include "event/https/base64.h"
#include "event/https/cluster_event.h"

namespace fairlead::injector {
namespace {

constexpr std::size_t kShownMax = 200;

std::string secret_path(const std::string& name_space, const std::string& name) {
  return "/api/v1/namespaces/" + name_space + "/secrets/" + name;
}

std::string named(const event::HttpsRequest& request, const std::string& what) {
  return request.method + " " + request.path + ": " + what;
}

}  // namespace

Called<Json> Cluster::call(const event::HttpsRequest& request, int expected_status) const {
  const auto reply = SMC_TRY(server_.send(request));
  const auto body = parse_bounded_json(reply.body);
  if (reply.status != expected_status) {
    const std::string message = body ? text_of(member(*body, "message")) : std::string();
    return tl::unexpected(named(
        request, "status " + std::to_string(reply.status) + " " + message.substr(0, kShownMax)));
  }
  if (!body) return tl::unexpected(named(request, "the answer is " + body.error()));
  return *body;
}

Called<Cluster::Secret> Cluster::read_secret(const std::string& name_space,
                                             const std::string& name) const {
  auto object = SMC_TRY(call({"GET", secret_path(name_space, name), "", "", ""}, http_status::kOk));
  Secret secret;
  for (const auto& [key, text] : strings_of(member(object, "data")))
    if (auto decoded = event::base64_decoded(text)) secret.data[key] = std::move(*decoded);
  secret.object = std::move(object);
  return secret;
}

Called<bool> Cluster::replace_secret(const Secret& secret) const {
  Json object = secret.object;
  const Json& metadata = member(object, "metadata");
  const std::string path =
      secret_path(text_of(member(metadata, "namespace")), text_of(member(metadata, "name")));
  object["data"] = Json::object();
  for (const auto& [key, value] : secret.data) object["data"][key] = event::base64(value);
  // The version that was read is in the metadata; the API server compares it.
  const auto reply = SMC_TRY(server_.send({"PUT", path, "", "", object.dump()}));
  if (reply.status == http_status::kConflict) return false;
  if (reply.status != http_status::kOk)
    return tl::unexpected("PUT " + path + ": status " + std::to_string(reply.status));
  return true;
}

Called<bool> Cluster::set_ca_bundle(const std::string& configuration,
                                    const std::string& bundle_pem) const {
  const std::string path =
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" + configuration;
  const auto object = SMC_TRY(call({"GET", path, "", "", ""}, http_status::kOk));
  const std::string bundle = event::base64(bundle_pem);
  Json patch = Json::array();
  const Json& webhooks = items_of(member(object, "webhooks"));
  for (std::size_t i = 0; i < webhooks.size(); ++i) {
    if (text_of(member(webhooks[i], "clientConfig", "caBundle")) == bundle) continue;
    const std::string hook = "/webhooks/" + std::to_string(i);
    // If the list was changed since, the test fails and nothing is changed.
    patch.push_back(
        {{"op", "test"}, {"path", hook + "/name"}, {"value", member(webhooks[i], "name")}});
    patch.push_back({{"op", "add"}, {"path", hook + "/clientConfig/caBundle"}, {"value", bundle}});
  }
  if (patch.empty()) return false;
  SMC_TRY(call({"PATCH", path, "", "application/json-patch+json", patch.dump()}, http_status::kOk));
  return true;
}

Called<void> Cluster::create_event(const std::string& name_space, const Subject& about,
                                   const std::string& reason, const std::string& message) const {
  event::ClusterEvent event;
  event.component = "fairlead-injector";
  event.name_space = name_space;
  event.about = {about.api_version, about.kind, about.name, about.uid};
  event.reason = reason;
  event.message = message;
  SMC_TRY(call({"POST", cluster_event_path(event), "", "", cluster_event_body(event)},
               http_status::kCreated));
  return {};
}

}  // namespace fairlead::injector
