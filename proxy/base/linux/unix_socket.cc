#include "base/linux/unix_socket.h"

#include <sys/stat.h>

#include <cerrno>

namespace fairlead {

Result<FileDescriptor> make_unix_socket(int type) {
  FileDescriptor fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  return fd;
}

// The file gets the mode of the socket. umask(2) is of the process, fchmod(2) is not.
Result<void> bind_unix_socket(int socket, const UnixAddress& address, std::optional<mode_t> mode,
                              const char* what) {
  if (mode && !address.is_abstract() && ::fchmod(socket, *mode) != 0)
    return system_error("fchmod", errno);
  if (::bind(socket, address.data(), address.size()) != 0) return system_error(what, errno);
  return {};
}

Result<FileDescriptor> connect_unix_socket(const UnixAddress& address, int type, const char* what) {
  FileDescriptor fd = SMC_TRY(make_unix_socket(type));
  if (::connect(fd.get(), address.data(), address.size()) != 0) return system_error(what, errno);
  return fd;
}

}  // namespace fairlead
