// The client side of the admin API: one request, one answer, the connection closed. Blocking, over
// TCP or a UNIX socket.
//
// A client of our own and not libevent's: a command line tool does one thing at a time, so an event
// loop would turn fifty straight lines into callbacks, and evhttp's client has no UNIX sockets.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "event/http/http_endpoint.h"
#include "event/http/http_reply.h"

namespace fairlead::ctl {

// An answer longer than this is no answer of a proxy's. JSON has further limits: kReplyLimits.
inline constexpr std::size_t kReplyBytesMax = 32 * 1024 * 1024;

// `method` and `target` ("/why?peer=…") go out as they are. `timeout` is for the whole exchange.
// Errors: those of the socket and of event::parse_http_reply(), kTimedOut, kExhausted (longer than
// kReplyBytesMax).
Result<event::HttpReply> http_request(const event::HttpEndpoint& endpoint, std::string_view method,
                                      std::string_view target, Duration timeout);

// The bytes that are allowed in a query as they are, the others as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace fairlead::ctl
