// One request and its answer, for clients of our own servers that close the connection afterwards.
// Pure; the clients differ in how they connect and wait.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::event {

struct HttpReply {
  int status = 0;
  std::string body;
};

// A request without a body. `method` and `target` ("/why?peer=…") go out as they are.
std::string http_request_text(std::string_view method, std::string_view target);

// The whole answer, from its first byte to the end of the connection. Errors: kPeerGone (nothing),
// kMalformed (no HTTP), kTruncated (ended early), kUnsupported (chunked, which our servers never
// send).
Result<HttpReply> parse_http_reply(const std::string& bytes);

}  // namespace fairlead::event
