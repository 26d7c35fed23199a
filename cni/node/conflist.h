// Network configurations as the container runtime finds them: which of a folder's files it takes,
// and our entry in it. Pure. Key order is kept: these files belong to others.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/plugin_error.h"

namespace fairlead::cni::node {

using OrderedJson = nlohmann::ordered_json;

inline constexpr const char* kPluginType = "fairlead-cni";
// Ours, where the runtime's first file is a bare .conf, which holds one plugin only: a copy of it
// as a list. The .conf itself is not touched.
inline constexpr const char* kOwnListName = "00-fairlead.conflist";

// The file that runtimes take: the first by name with .conf, .conflist or .json, ours apart.
// Nothing when there is none yet.
std::optional<std::string> primary_file(std::vector<std::string> names);

// A list from the text of either kind of file. The error says what is wrong with it.
Outcome<OrderedJson> parse_list(std::string_view text);

bool has_entry(const OrderedJson& list);
// With `entry` as the last plugin, in place of any that was there.
OrderedJson with_entry(OrderedJson list, const OrderedJson& entry);
OrderedJson without_entry(OrderedJson list);

// Our entry: `settings`, the keys of docs/cni-reference.md, with type and capabilities. The error
// is the one that the plugin would give.
Outcome<OrderedJson> make_entry(std::string_view settings);

}  // namespace fairlead::cni::node
