// A call to the API server that expects one status.
#pragma once

#include <string>

#include "base/result.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

// The body of the answer, if it has that status; otherwise a sentence about the error. Blocks as
// ApiServer::send() does.
Result<std::string, std::string> call_api(const event::ApiServer& server,
                                          event::HttpsRequest request, int expected);

}  // namespace fairlead::cni::node
