// Reads and replaces small files: of the kernel, of the plugin's state, of the runtime's
// configuration.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fairlead {

// Sorted; empty for a folder that is missing or unreadable.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Without its end of line; empty for a file that is missing or unreadable.
std::string first_line(const std::filesystem::path& path);

// `flags`: additional flags of open(2). Never waits for a pipe or a device. Errors: those of the
// system; EFBIG for more than `bytes_max`; EINVAL for what is no ordinary file.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max,
                              int flags = 0);

// Writes `text` to `fresh`, which must be in the same file system, and then renames it to `path`.
// Whatever has the name `fresh` is removed, so that nothing is written through a link or into a
// pipe. Readers see the old or the new file, also after a crash. Errors: those of the system.
Result<void> replace_file(const std::filesystem::path& path, const std::filesystem::path& fresh,
                          std::string_view text, mode_t mode);

}  // namespace fairlead
