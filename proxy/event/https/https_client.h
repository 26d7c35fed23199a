// An HTTPS client for the few calls that Fairlead makes to an API server: one connection
// and one request at a time, the caller's thread waits. The peer is verified against the given CA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace fairlead::event {

struct HttpsTarget {
  std::string host;  // a numeric address; no name is looked up
  std::uint16_t port = 443;
  std::string ca_pem;                // one or more certificates
  std::string server_name = {};      // that the server's certificate is for; empty: `host`
  std::string certificate_pem = {};  // of the client; empty: it shows none
  std::string key_pem = {};          // of that certificate
  bool system_authorities = false;   // those of the machine, in place of `ca_pem`
  bool verify = true;                // false: any certificate of the server will do
};

// Of the body of an answer, unless the request allows more.
inline constexpr std::size_t kHttpsReplyBytesMax = 4 << 20;

// The least that HttpsRequest::accept_beginning gives of a longer body.
inline constexpr std::size_t kHttpsBeginningBytes = 64 << 10;
// With accept_beginning, a longer body or chunk is refused at once: its beginning may be empty.
inline constexpr std::size_t kHttpsBufferedBytesMax = 32 << 20;

struct HttpsRequest {
  std::string method = "GET";  // GET, POST, PUT or PATCH
  std::string path;            // with query
  std::string bearer;          // token; empty for none
  std::string content_type;
  std::string body;
  std::size_t reply_bytes_max = kHttpsReplyBytesMax;
  // A body beyond `reply_bytes_max` is no error: the reply has its beginning, at least
  // kHttpsBeginningBytes. More is not read if the server has announced such a length.
  bool accept_beginning = false;
  std::string accept = "application/json";  // types of answers
};

struct HttpsReply {
  int status = 0;
  std::string body;
  bool cut = false;    // the body is only a beginning
  std::string length;  // of the whole body, where the server announced it; for people
};

// Errors: kTimedOut, kPeerGone (refused, reset), kPermission (the authorities do not vouch for the
// peer; `what` says why in OpenSSL's words), kMalformed (no certificate in `ca_pem`, no certificate
// or key of the client, unknown method), kExhausted (also for an answer that is too long). Blocks
// for `timeout` at most.
Result<HttpsReply> https_call(const HttpsTarget& target, const HttpsRequest& request,
                              Duration timeout);

}  // namespace fairlead::event
