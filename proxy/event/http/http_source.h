// Who is at the other end of a connection to an HTTP server. Private to this folder.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace fairlead::event {

struct HttpSource {
  // "10.1.2.3", "fd00:0:0:1::/64" or "uid 1000": connections with the same name share one fate. See
  // address_block() for addresses.
  std::string name = "unknown";
  std::optional<uid_t> uid;  // of the process that connected; UNIX sockets only
};

// Of a connected socket; "unknown" where the kernel does not tell any more.
HttpSource http_source_of(int fd);

}  // namespace fairlead::event
