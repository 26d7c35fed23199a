#include "base/linux/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/linux/handle.h"
#include "base/linux/unix_address.h"

namespace fairlead {

void remove_stale_socket(const std::string& path, int type) noexcept {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const auto address = unix_name(path);
  const FileDescriptor probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !probe) return;
  if (::connect(probe.get(), address->get(), address->length_bytes) != 0 && errno == ECONNREFUSED)
    ::unlink(path.c_str());
}

}  // namespace fairlead
