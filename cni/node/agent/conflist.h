// Network configurations of the container runtime: the file that it uses in a folder, and
// Fairlead's entry in it. Pure. The order of keys is kept, because these files belong to other
// programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/plugin/plugin_error.h"

namespace fairlead::cni::node {

using OrderedJson = nlohmann::ordered_json;

inline constexpr const char* kPluginType = "fairlead-cni";
// Fairlead's own file: a copy of the default network as a list. It is used if the default network
// is a bare .conf, which holds only one plugin and is not changed. The name sorts before all
// others, but after Multus' file, which uses the next file for the default network.
inline constexpr const char* kOwnListName = "01-fairlead.conflist";

// The file that runtimes use: the first by name with .conf, .conflist or .json, except
// kOwnListName. Empty if there is none yet.
std::optional<std::string> primary_file(std::vector<std::string> names);

// Place of the default network of pods in a configuration.
enum class Shape {
  kList,       // itself, a list of plugins
  kSingle,     // itself, one plugin: nothing can follow it
  kDelegates,  // Multus', which has a copy of it
  kElsewhere,  // Multus', which names the file, or the network, see cluster_network()
};
// The error describes the mistake in the text.
Outcome<OrderedJson> parse_configuration(std::string_view text);
Shape shape_of(const OrderedJson& configuration);
// For shape kElsewhere: a path as Multus sees it, or the name of a network.
std::string cluster_network(const OrderedJson& configuration);

// Converts a configuration of shape kSingle into a list.
OrderedJson as_list(OrderedJson single);

// True if the default network has Fairlead's entry. REQUIRES: shape kList or kDelegates
bool has_entry(const OrderedJson& configuration);
// Adds `entry` as the last plugin; it replaces an existing entry.
OrderedJson with_entry(OrderedJson configuration, const OrderedJson& entry);
OrderedJson without_entry(OrderedJson configuration);

// Fairlead's entry: `settings`, the keys of docs/cni-reference.md, with type and capabilities. The
// error is that of the plugin.
Outcome<OrderedJson> make_entry(std::string_view settings);

}  // namespace fairlead::cni::node
