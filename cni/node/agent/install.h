// Installation of the plugin on a node: its binary in the runtime's folders for plugins, its entry
// in the runtime's network configuration, and the file that switches it on.
#pragma once

#include <string>
#include <vector>

#include "cni/node/agent/conflist.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni::node {

struct Places {
  std::string plugin;                 // the binary to install
  std::vector<std::string> bin_dirs;  // where to
  std::string conf_dir;               // of the runtime, /etc/cni/net.d
  std::string run_dir;                // the plugin's
  std::string seccomp_dir;            // for the sidecar's seccomp profile; empty: none is installed
  std::string seccomp_profile;        // the file to install there
};

enum class ListChange : std::uint8_t {
  kNone,     // was correct already
  kWritten,  // the entry was added or updated
  kWaiting,  // there is no readable network configuration yet
};

struct Installed {
  ListChange change = ListChange::kNone;
  std::string file;  // with the entry, or the reason why there is none
};

// Installs the seccomp profile, if it has a folder, and the binary, then the switch, then the
// configuration, so an entry never names a missing binary. The call can be repeated: for an upgrade
// with another binary, and after another program has rewritten the configuration. Files are
// replaced by rename.
Outcome<Installed> install(const Places& places, const OrderedJson& entry);

// Installs the entry only, as install() does; for a changed configuration.
Outcome<Installed> install_entry(const Places& places, const OrderedJson& entry);

// Removes the entry from every file in conf_dir, then the switch. Afterwards no new call of the
// plugin has an effect.
Outcome<void> remove_entries(const Places& places);
// Removes the binaries. Call it after remove_entries(): for pods that were started with the entry,
// the runtime still calls DEL with the configuration that it stored.
Outcome<void> remove_binaries(const Places& places);

}  // namespace fairlead::cni::node
