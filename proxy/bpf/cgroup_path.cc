#include "bpf/cgroup_path.h"

#include <fcntl.h>

#include <cerrno>
#include <optional>

#include "base/linux/files.h"
#include "base/linux/handle.h"

namespace fairlead::bpf {
namespace {

// A busy node's mount table has some hundred lines; no sane one comes near this.
constexpr std::size_t kProcFileBytesMax = 4 << 20;

Result<std::string> text_of(const char* path) {
  Result<std::string> text = read_file(path, kProcFileBytesMax);
  if (!text) return system_error(path, text.error().system);
  return text;
}

// Cuts off `text` up to the next `separator` and gives what stood before it.
std::string_view take_until(std::string_view& text, char separator) {
  auto end = text.find(separator);
  std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

// mountinfo writes blank, tab, newline and backslash as \ and three octal digits.
std::string unescape(std::string_view text) {
  auto digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1;
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
      plain += static_cast<char>(64 * digit(i + 1) + 8 * digit(i + 2) + digit(i + 3));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// The line "0::/path": version 2 has hierarchy 0 and no controller names.
std::optional<std::string_view> version_two_entry(std::string_view self_cgroup) {
  while (!self_cgroup.empty()) {
    std::string_view line = take_until(self_cgroup, '\n');
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return std::nullopt;
}

// `path` below `root`, both absolute, as a suffix that starts with "/" or is empty.
std::optional<std::string_view> below(std::string_view path, std::string_view root) {
  if (root != "/") {
    if (!path.starts_with(root)) return std::nullopt;
    path.remove_prefix(root.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
  }
  return path == "/" ? std::string_view() : path;
}

struct Mount {
  std::string root;   // which directory of the hierarchy is seen
  std::string point;  // where
};

// proc(5): id, parent, major:minor, root, mount point, options, optional fields, "-", type, …
std::optional<Mount> cgroup2_mount(std::string_view line) {
  for (int skipped = 0; skipped < 3; ++skipped) take_until(line, ' ');
  std::string_view root = take_until(line, ' ');
  std::string_view point = take_until(line, ' ');
  while (!line.empty() && take_until(line, ' ') != "-") continue;
  if (take_until(line, ' ') != "cgroup2") return std::nullopt;
  return Mount{unescape(root), unescape(point)};
}

}  // namespace

Result<std::string> own_cgroup_path(std::string_view self_cgroup, std::string_view mountinfo) {
  auto path = version_two_entry(self_cgroup);
  if (!path) return Error{Errc::kNotFound, "cgroup of version 2 of this process"};
  bool mounted = false;
  while (!mountinfo.empty()) {
    auto mount = cgroup2_mount(take_until(mountinfo, '\n'));
    if (!mount) continue;
    mounted = true;
    auto suffix = below(*path, mount->root);
    // "/.." is how a cgroup namespace names what lies outside of it.
    if (!suffix || suffix->starts_with("/..")) continue;
    return mount->point + std::string(*suffix);
  }
  if (!mounted) return Error{Errc::kNotFound, "cgroup2 mount"};
  return Error{Errc::kUnsupported, "own cgroup lies outside of the mounted hierarchy"};
}

Result<std::string> own_cgroup_path() {
  std::string self_cgroup = SMC_TRY(text_of("/proc/self/cgroup"));
  std::string mountinfo = SMC_TRY(read_mountinfo());
  return own_cgroup_path(self_cgroup, mountinfo);
}

Result<std::string> read_mountinfo() { return text_of("/proc/self/mountinfo"); }

}  // namespace fairlead::bpf
