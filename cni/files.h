// Small files and folders, as sysfs, the plugin's state and the runtime's configuration are made
// of.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fairlead::cni {

// Sorted; empty for a folder that is not there or not to be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Without its end of line; empty for a file that is not there or not to be read.
std::string first_line(const std::filesystem::path& path);

// `flags`: of open(2), besides those for reading. Errors: those of the system; EFBIG for more than
// `bytes_max`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max,
                              int flags = 0);

// Writes `text` to `fresh`, which must be in the same file system, and then renames it to `path`: a
// reader sees the old file or the new one, and so does who comes after a crash. Errors: those of
// the system.
Result<void> replace_file(const std::filesystem::path& path, const std::filesystem::path& fresh,
                          std::string_view text, mode_t mode);

}  // namespace fairlead::cni
