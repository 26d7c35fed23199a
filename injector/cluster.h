// Calls of the injector to its API server. Each blocks for ApiServer::kCallMax at most. Source:
// Kubernetes API reference, Secret v1, MutatingWebhookConfiguration v1, Event v1 (core).
#pragma once

#include <string>

#include "base/result.h"
#include "event/https/api_server.h"
#include "injector/bounded_json.h"
#include "injector/review.h"

namespace fairlead::injector {

// Errors are sentences for the log, with the call and its answer.
template <class T>
using Called = Result<T, std::string>;

class Cluster {
 public:
  explicit Cluster(event::ApiServer server) : server_(std::move(server)) {}

  // Secret.data, decoded; `version` is what replace_secret() wants.
  struct Secret {
    std::map<std::string, std::string, std::less<>> data;
    Json object;
  };
  Called<Secret> read_secret(const std::string& name_space, const std::string& name) const;
  // False if another client has changed it meanwhile; then read it again.
  Called<bool> replace_secret(const Secret& secret) const;

  // Makes `bundle_pem` the caBundle of every webhook of the configuration. True if one had another.
  Called<bool> set_ca_bundle(const std::string& configuration, const std::string& bundle_pem) const;

  Called<void> create_event(const std::string& name_space, const Subject& about,
                            const std::string& reason, const std::string& message) const;

 private:
  Called<Json> call(const event::HttpsRequest& request, int expected_status) const;

  event::ApiServer server_;
};

}  // namespace fairlead::injector
