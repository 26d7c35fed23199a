// The plugin on a node: its binary in the folders where the runtime looks for plugins, its entry in
// the runtime's network configuration, and the file that switches it on.
#pragma once

#include <string>
#include <vector>

#include "cni/node/conflist.h"
#include "cni/plugin_error.h"

namespace fairlead::cni::node {

struct Places {
  std::string plugin;                 // the binary to install
  std::vector<std::string> bin_dirs;  // where to
  std::string conf_dir;               // of the runtime, /etc/cni/net.d
  std::string run_dir;                // the plugin's
};

enum class ListChange : std::uint8_t {
  kNone,     // was as it should be
  kWritten,  // our entry was added, or brought up to date
  kWaiting,  // there is no network configuration yet, or not one that can be read
};

struct Installed {
  ListChange change = ListChange::kNone;
  std::string file;  // that has our entry, or why there is none
};

// Binary, then switch, then configuration: at no moment does an entry name what is not there. May
// be called at any time again: an upgrade is the same call with another binary, and so is the
// answer to another program that has rewritten the configuration. Every file appears whole, by
// rename.
Outcome<Installed> install(const Places& places, const OrderedJson& entry);

// The entry alone, as install() does it; for when the configuration has changed.
Outcome<Installed> install_entry(const Places& places, const OrderedJson& entry);

// The configuration of every file in conf_dir, then the switch. After it no new call does anything.
Outcome<void> remove_entries(const Places& places);
// The binaries. Later than remove_entries(), because the runtime still calls DEL for pods that were
// started with the entry, by the configuration that it remembers.
Outcome<void> remove_binaries(const Places& places);

}  // namespace fairlead::cni::node
