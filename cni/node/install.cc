#include "cni/node/install.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "cni/files.h"
#include "cni/verbs.h"

namespace fairlead::cni::node {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kBinaryMode = 0755;
constexpr mode_t kListMode = 0600;
constexpr std::size_t kBinaryBytesMax = 256 << 20;

tl::unexpected<PluginError> failed(const fs::path& path, int error_number) {
  return fail(Code::kState, to_string(fairlead::system_error(path.c_str(), error_number)));
}

Outcome<std::string> content_of(const fs::path& path) {
  auto text = read_file(path, kBinaryBytesMax);
  if (!text) return failed(path, text.error().system);
  return std::move(*text);
}

Outcome<void> make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return failed(path, error.value());
  return {};
}

// Beside its place first, under a name that no runtime takes for a configuration or a plugin.
Outcome<void> put(const fs::path& path, const std::string& text, mode_t mode) {
  const fs::path fresh = path.parent_path() / ("." + path.filename().string() + ".fairlead-new");
  const auto done = replace_file(path, fresh, text, mode);
  if (!done) return failed(path, done.error().system);
  return {};
}

Outcome<void> remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed(path, errno);
  return {};
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : kListMode;
}

Outcome<void> install_binaries(const Places& places) {
  const auto wanted = content_of(places.plugin);
  if (!wanted) return tl::unexpected(wanted.error());
  for (const std::string& folder : places.bin_dirs) {
    if (auto made = make_folder(folder); !made) return made;
    const fs::path path = fs::path(folder) / kPluginType;
    const auto present = content_of(path);
    if (present && *present == *wanted && mode_of(path) == kBinaryMode) continue;
    if (auto written = put(path, *wanted, kBinaryMode); !written) return written;
  }
  return {};
}

}  // namespace

Outcome<Installed> install_entry(const Places& places, const OrderedJson& entry) {
  const fs::path folder(places.conf_dir);
  const auto primary = primary_file(names_in(folder));
  if (!primary) {
    // What our copy was made of has gone.
    if (auto gone = remove_file(folder / kOwnListName); !gone) return tl::unexpected(gone.error());
    return Installed{ListChange::kWaiting, "no network configuration in " + places.conf_dir};
  }
  const auto text = content_of(folder / *primary);
  const auto list = text ? parse_list(*text) : Outcome<OrderedJson>(tl::unexpected(text.error()));
  // Another program may be writing it at this moment.
  if (!list) return Installed{ListChange::kWaiting, *primary + ": " + list.error().message};
  const bool bare = !OrderedJson::parse(*text, nullptr, false).contains("plugins");
  if (bare && *primary < kOwnListName)
    return fail(Code::kConfig, "conf_dir: " + *primary + " is a single plugin that comes before " +
                                   kOwnListName + "; allowed: a name that comes after it");
  const fs::path target = folder / (bare ? std::string(kOwnListName) : *primary);
  if (!bare)
    if (auto gone = remove_file(folder / kOwnListName); !gone) return tl::unexpected(gone.error());
  const std::string wanted = with_entry(*list, entry).dump(2) + "\n";
  const auto present = content_of(target);
  if (present && *present == wanted) return Installed{ListChange::kNone, target.string()};
  // Nothing but our own entry differs from what would be written: then the formatting is theirs.
  if (present && !bare && OrderedJson::parse(*present, nullptr, false) == with_entry(*list, entry))
    return Installed{ListChange::kNone, target.string()};
  const mode_t mode = mode_of(bare ? folder / *primary : target);
  if (auto written = put(target, wanted, mode); !written) return tl::unexpected(written.error());
  return Installed{ListChange::kWritten, target.string()};
}

Outcome<Installed> install(const Places& places, const OrderedJson& entry) {
  if (auto done = install_binaries(places); !done) return tl::unexpected(done.error());
  if (auto made = make_folder(places.run_dir); !made) return tl::unexpected(made.error());
  if (auto made = put(fs::path(places.run_dir) / kEnabledName, "", kListMode); !made)
    return tl::unexpected(made.error());
  return install_entry(places, entry);
}

Outcome<void> remove_entries(const Places& places) {
  const fs::path folder(places.conf_dir);
  if (auto gone = remove_file(folder / kOwnListName); !gone) return gone;
  for (const std::string& name : names_in(folder)) {
    const auto text = content_of(folder / name);
    const auto list = text ? parse_list(*text) : Outcome<OrderedJson>(tl::unexpected(text.error()));
    if (!list || !has_entry(*list)) continue;  // not ours to judge
    const OrderedJson rest = without_entry(*list);
    if (auto written = put(folder / name, rest.dump(2) + "\n", mode_of(folder / name)); !written)
      return written;
  }
  return remove_file(fs::path(places.run_dir) / kEnabledName);
}

Outcome<void> remove_binaries(const Places& places) {
  for (const std::string& folder : places.bin_dirs)
    if (auto gone = remove_file(fs::path(folder) / kPluginType); !gone) return gone;
  return {};
}

}  // namespace fairlead::cni::node
