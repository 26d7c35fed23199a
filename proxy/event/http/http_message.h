// An HTTP request and its response as plain values. What parses and sends them is http_server.h.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "event/http/http_status.h"

namespace fairlead::event {

struct HttpRequest {
  std::string method;  // "GET"; empty for a method that HTTP does not define
  std::string path;    // without the query, as sent
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in the order sent
  bool query_malformed = false;                            // then `query` is empty
  std::string body;
  // Who asks, for logs: "10.1.2.3", "fd00::/64", "uid 1000".
  std::string source;
  // The user of the process that connected over a UNIX socket, as the kernel tells it; empty over
  // TCP.
  std::optional<uid_t> peer_uid;
  bool over_tcp = true;
};

struct HttpResponse {
  int status = http_status::kOk;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides type, length and connection
};

}  // namespace fairlead::event
