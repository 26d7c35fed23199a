// One HTTP request of a client and its answer, over a stream that the caller made. https_client.h
// brings one with TLS. Blocking.
#pragma once

#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "event/https/https_client.h"

// libevent's types stay out of the headers.
struct bufferevent;
struct event_base;

namespace fairlead::event {

// Connects `stream`, which must belong to `base`, and takes it over, also where this fails. Empty
// when no whole answer came: the connection failed, the answer is malformed, or more than
// `timeout` has gone by. Errors: kMalformed (unknown method), kExhausted (also for an
// answer that is too long), kPeerGone.
Result<std::optional<HttpsReply>> http_exchange(::event_base* base, ::bufferevent* stream,
                                                const HttpsTarget& target,
                                                const HttpsRequest& request, Duration timeout);

}  // namespace fairlead::event
