#include "cni/node/agent/install.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/linux/files.h"
#include "base/result.h"
#include "cni/plugin/json_text.h"
#include "cni/rnics/verbs.h"

namespace fairlead::cni::node {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kBinaryMode = 0755;
constexpr mode_t kListMode = 0600;
constexpr std::size_t kBinaryBytesMax = 256 << 20;
constexpr mode_t kProfileMode = 0644;
constexpr std::size_t kProfileBytesMax = 1 << 20;

tl::unexpected<PluginError> failed(const fs::path& path, int error_number) {
  return fail(Code::kState, to_string(fairlead::system_error(path.c_str(), error_number)));
}

Outcome<std::string> content_of(const fs::path& path, std::size_t bytes_max = kBinaryBytesMax) {
  auto text = read_file(path, bytes_max);
  if (!text) return failed(path, text.error().system);
  return std::move(*text);
}

Outcome<void> make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return failed(path, error.value());
  return {};
}

// Writes to a name beside it first, which runtimes recognise neither as a configuration nor as a
// plugin.
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
  const auto wanted = SMC_TRY(content_of(places.plugin));
  for (const std::string& folder : places.bin_dirs) {
    if (auto made = make_folder(folder); !made) return made;
    const fs::path path = fs::path(folder) / kPluginType;
    const auto present = content_of(path);
    if (present && *present == wanted && mode_of(path) == kBinaryMode) continue;
    if (auto written = put(path, wanted, kBinaryMode); !written) return written;
  }
  return {};
}

// The kubelet reads the profile whenever a sidecar starts. Other files of the folder stay as they
// are.
Outcome<void> install_seccomp_profile(const Places& places) {
  if (places.seccomp_dir.empty()) return {};
  const auto wanted = SMC_TRY(content_of(places.seccomp_profile, kProfileBytesMax));
  if (!OrderedJson::parse(wanted, nullptr, false).contains("defaultAction"))
    return fail(Code::kConfig, "--seccomp-profile: " + places.seccomp_profile +
                                   " is not allowed; allowed: a JSON object with defaultAction");
  if (auto made = make_folder(places.seccomp_dir); !made) return made;
  const fs::path path = fs::path(places.seccomp_dir) / kubernetes::kSeccompFile;
  const auto present = content_of(path, kProfileBytesMax);
  if (present && *present == wanted && mode_of(path) == kProfileMode) return {};
  return put(path, wanted, kProfileMode);
}

// The default network of the node's pods.
struct Network {
  std::string name;  // of its file
  OrderedJson configuration;
  bool by_multus = false;  // in a file that Multus names
};

Result<OrderedJson, std::string> read_configuration(const fs::path& path) {
  const auto text = content_of(path);
  const auto read =
      text ? parse_configuration(*text) : Outcome<OrderedJson>(tl::unexpected(text.error()));
  // Another program may be writing it at this moment.
  if (!read) return tl::unexpected(path.filename().string() + ": " + read.error().message);
  return *read;
}

// Multus runs in a container and sees the folder at another path. It may also give the network's
// name.
std::optional<std::string> file_of(const fs::path& folder, const std::string& cluster_network) {
  const bool path = cluster_network.find('/') != std::string::npos;
  const std::string wanted = path ? fs::path(cluster_network).filename().string() : cluster_network;
  for (const std::string& name : names_in(folder)) {
    if (path && name == wanted) return name;
    if (path) continue;
    const auto configuration = read_configuration(folder / name);
    if (configuration && configuration->value("name", OrderedJson()) == wanted) return name;
  }
  return std::nullopt;
}

Result<Network, std::string> follow_multus(const fs::path& folder, const std::string& multus,
                                           const std::string& cluster_network) {
  const auto name = file_of(folder, cluster_network);
  if (!name)
    return tl::unexpected(multus + ": its clusterNetwork " + in_quotes(cluster_network) +
                          " is nothing in " + folder.string());
  auto configuration = SMC_TRY(read_configuration(folder / *name));
  const Shape shape = shape_of(configuration);
  if (shape == Shape::kDelegates || shape == Shape::kElsewhere)
    return tl::unexpected(multus + ": its clusterNetwork is Multus itself");
  return Network{*name, std::move(configuration), true};
}

// The error says what is missing.
Result<Network, std::string> find_network(const fs::path& folder) {
  const auto primary = primary_file(names_in(folder));
  if (!primary) {
    // The source of the copy was removed.
    if (auto gone = remove_file(folder / kOwnListName); !gone)
      return tl::unexpected(gone.error().message);
    return tl::unexpected("no network configuration in " + folder.string());
  }
  auto configuration = SMC_TRY(read_configuration(folder / *primary));
  if (shape_of(configuration) == Shape::kElsewhere)
    return follow_multus(folder, *primary, cluster_network(configuration));
  return Network{*primary, std::move(configuration), false};
}

}  // namespace

Outcome<Installed> install_entry(const Places& places, const OrderedJson& entry) {
  const fs::path folder(places.conf_dir);
  const auto network = find_network(folder);
  if (!network) return Installed{ListChange::kWaiting, network.error()};
  const bool single = shape_of(network->configuration) == Shape::kSingle;
  if (single && network->name < kOwnListName)
    return fail(Code::kConfig, "conf_dir: " + network->name +
                                   " is a single plugin that comes before " + kOwnListName +
                                   "; allowed: a name that comes after it");
  const fs::path target = folder / (single ? std::string(kOwnListName) : network->name);
  if (target.filename() != kOwnListName) SMC_TRY(remove_file(folder / kOwnListName));
  const OrderedJson wanted =
      with_entry(single ? as_list(network->configuration) : network->configuration, entry);
  const ListChange nothing =
      single && network->by_multus ? ListChange::kWaiting : ListChange::kNone;
  const std::string told =
      nothing == ListChange::kNone
          ? target.string()
          : network->name + ": a single plugin; Multus takes " + kOwnListName + " when it starts";
  const auto present = content_of(target);
  // If the contents are equal, keep the file with its own formatting.
  if (present && OrderedJson::parse(*present, nullptr, false) == wanted)
    return Installed{nothing, told};
  const mode_t mode = mode_of(folder / network->name);
  SMC_TRY(put(target, wanted.dump(2) + "\n", mode));
  return Installed{nothing == ListChange::kNone ? ListChange::kWritten : nothing, told};
}

Outcome<Installed> install(const Places& places, const OrderedJson& entry) {
  SMC_TRY(install_seccomp_profile(places));
  SMC_TRY(install_binaries(places));
  SMC_TRY(make_folder(places.run_dir));
  SMC_TRY(put(fs::path(places.run_dir) / kEnabledName, "", kListMode));
  return install_entry(places, entry);
}

Outcome<void> remove_entries(const Places& places) {
  const fs::path folder(places.conf_dir);
  if (auto gone = remove_file(folder / kOwnListName); !gone) return gone;
  for (const std::string& name : names_in(folder)) {
    const auto text = content_of(folder / name);
    const auto known =
        text ? parse_configuration(*text) : Outcome<OrderedJson>(tl::unexpected(text.error()));
    if (!known || !has_entry(*known)) continue;  // not an entry of Fairlead
    const OrderedJson rest = without_entry(*known);
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
