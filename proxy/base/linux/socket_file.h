// Files of listening Unix sockets. A file outlives the process that made it.
#pragma once

#include <string>

namespace fairlead {

// Removes a socket's file where nobody answers there. `type`: SOCK_STREAM or SOCK_SEQPACKET, that
// of who listened. What is no socket stays.
void remove_stale_socket(const std::string& path, int type) noexcept;

}  // namespace fairlead
