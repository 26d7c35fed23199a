// The API server of the cluster that we run in, for the few calls that Fairlead makes to it.
// Source: Kubernetes, "Accessing the Kubernetes API from a Pod", section "Directly accessing the
// REST API".
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "event/https/https_client.h"

namespace fairlead::event {

class ApiServer {
 public:
  static constexpr Duration kCallMax = std::chrono::seconds(10);

  // `token_file` is read at each call: the kubelet replaces its content every hour.
  ApiServer(HttpsTarget target, std::string token_file)
      : target_(std::move(target)), token_file_(std::move(token_file)) {}

  // From the environment and the files that every pod with a service account has. The error is a
  // sentence.
  static Result<ApiServer, std::string> from_pod();

  // With our token; a body is JSON unless the request says otherwise. Any status is an answer. The
  // error is a sentence: what was called, and why nothing came back. Blocks for kCallMax at most.
  Result<HttpsReply, std::string> send(HttpsRequest request) const;

  // Our token, as it is now. Empty if it cannot be read.
  std::string token() const;

 private:
  HttpsTarget target_;
  std::string token_file_;
};

}  // namespace fairlead::event
