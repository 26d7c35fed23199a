// In a source file of its own: the proxy only reads files, and must not import fsync(2).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/linux/files.h"
#include "base/linux/handle.h"

namespace fairlead {
namespace fs = std::filesystem;

Result<void> replace_file(const fs::path& path, const fs::path& fresh, std::string_view text,
                          mode_t mode) {
  if (::unlink(fresh.c_str()) != 0 && errno != ENOENT) return system_error("unlink", errno);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const FileDescriptor file(::open(fresh.c_str(), flags, mode));
  // Sets the requested mode independently of the umask.
  if (!file || ::fchmod(file.get(), mode) != 0) return system_error("create", errno);
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return system_error("write", errno);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  // Otherwise a crash of the node could leave an empty file under the name.
  if (::fsync(file.get()) != 0) return system_error("fsync", errno);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return system_error("rename", errno);
  return {};
}

}  // namespace fairlead
