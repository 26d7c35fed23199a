// Unix sockets by name. All are closed on exec and never block.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>

#include "base/linux/handle.h"
#include "base/linux/unix_address.h"
#include "base/result.h"

namespace fairlead {

// Errors: of socket(2).
Result<FileDescriptor> make_unix_socket(int type);

// `mode`: of the file of a path, from its first moment on; without it, as umask(2) leaves it.
// `what` names bind(2) in errors. Errors: of fchmod(2) and bind(2).
Result<void> bind_unix_socket(int socket, const UnixAddress& address, std::optional<mode_t> mode,
                              const char* what = "bind");

// `what` names connect(2) in errors. Errors: of socket(2) and connect(2).
Result<FileDescriptor> connect_unix_socket(const UnixAddress& address, int type,
                                           const char* what = "connect");

}  // namespace fairlead
