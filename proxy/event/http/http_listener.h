// Listening sockets for HttpServer. Private to this folder.
#pragma once

#include "base/linux/handle.h"
#include "base/result.h"
#include "event/http/http_endpoint.h"

namespace fairlead::event {

// Bound and listening, not blocking. A socket file that nobody listens on any more is replaced; a
// new one has mode 0600. [::] listens for IPv4 too, and for IPv4 alone where the kernel has no
// IPv6.
Result<FileDescriptor> open_http_listener(const HttpEndpoint& endpoint);

// `asked`, with the port that the kernel chose if it was 0.
Result<HttpEndpoint> bound_http_endpoint(const HttpEndpoint& asked, int fd);

}  // namespace fairlead::event
