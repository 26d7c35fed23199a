// An HTTP request and its response as plain values. What parses and sends them is http_server.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fairlead::event {

struct HttpRequest {
  std::string method;  // "GET"; empty for a method that HTTP does not define
  std::string path;    // without the query, as sent
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in the order sent
  bool query_malformed = false;                            // then `query` is empty
  std::string body;
  bool from_this_host = false;  // by loopback or by a UNIX socket
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides type, length and connection
};

}  // namespace fairlead::event
