#include "cni/node/cluster/api_call.h"

#include "base/result.h"

#include <utility>

namespace fairlead::cni::node {

Result<std::string, std::string> call_api(const event::ApiServer& server,
                                          event::HttpsRequest request, int expected) {
  const std::string what = request.method + " " + request.path;
  auto reply = SMC_TRY(server.send(std::move(request)));
  if (reply.status != expected)
    return tl::unexpected(what + ": status " + std::to_string(reply.status));
  return std::move(reply.body);
}

}  // namespace fairlead::cni::node
