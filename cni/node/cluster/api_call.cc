#include "cni/node/cluster/api_call.h"

#include <utility>

namespace fairlead::cni::node {

tl::expected<std::string, std::string> call_api(const event::ApiServer& server,
                                                event::HttpsRequest request, int expected) {
  const std::string what = request.method + " " + request.path;
  auto reply = server.send(std::move(request));
  if (!reply) return tl::unexpected(reply.error());
  if (reply->status != expected)
    return tl::unexpected(what + ": status " + std::to_string(reply->status));
  return std::move(reply->body);
}

}  // namespace fairlead::cni::node
