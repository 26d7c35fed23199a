#include "base/linux/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/linux/unix_socket.h"

namespace fairlead {

void remove_stale_socket(const std::string& path, int type) noexcept {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const auto address = UnixAddress::of_path(path);
  if (!address) return;
  const auto probe = connect_unix_socket(*address, type);
  if (!probe && probe.error().system == ECONNREFUSED) ::unlink(path.c_str());
}

}  // namespace fairlead
