#include "base/linux/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "base/linux/handle.h"

namespace fairlead {
namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Result<std::string> read_file(const fs::path& path, std::size_t bytes_max, int flags) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!file) return system_error("open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
  if (S_ISDIR(status.st_mode)) return system_error("open", EISDIR);
  if (!S_ISREG(status.st_mode)) return system_error("open", EINVAL);
  std::string text;
  std::array<char, 4096> chunk;
  for (;;) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read", errno);
    if (count == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > bytes_max) return system_error("read", EFBIG);
  }
}

}  // namespace fairlead
