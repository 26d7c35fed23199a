#include "cni/node/agent/conflist.h"

#include <algorithm>
#include <array>

#include "cni/plugin/json_text.h"
#include "cni/plugin/node_config.h"

namespace fairlead::cni::node {
namespace {

constexpr std::array<std::string_view, 3> kEndings = {".conf", ".conflist", ".json"};

bool is_ours(const OrderedJson& plugin) {
  return plugin.is_object() && plugin.value("type", OrderedJson()) == kPluginType;
}

// Parses once to check the limits, and once more to keep the order of the keys.
Outcome<OrderedJson> parse_ordered(std::string_view text) {
  const auto checked = parse_json(text);
  if (!checked) return fail(Code::kDecode, checked.error());
  if (!checked->is_object()) return fail(Code::kDecode, "not an object");
  return OrderedJson::parse(text, nullptr, false);
}

// Both kinds of Multus: the plugin that works by itself, and the one that calls a daemon.
bool is_multus(const OrderedJson& plugin) {
  if (!plugin.is_object()) return false;
  const OrderedJson type = plugin.value("type", OrderedJson());
  return type == "multus" || type == "multus-shim";
}

// For a constant configuration, or one that may be changed.
template <class Configuration>
Configuration& first_plugin(Configuration& configuration) {
  const auto plugins = configuration.find("plugins");
  return plugins == configuration.end() ? configuration : plugins->front();
}

template <class Configuration>
Configuration& default_network(Configuration& configuration) {
  if (shape_of(configuration) != Shape::kDelegates) return configuration;
  return first_plugin(configuration)["delegates"].front();
}

}  // namespace

std::optional<std::string> primary_file(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name == kOwnListName || name.starts_with('.')) continue;
    if (std::any_of(kEndings.begin(), kEndings.end(),
                    [&name](std::string_view ending) { return name.ends_with(ending); }))
      return name;
  }
  return std::nullopt;
}

Outcome<OrderedJson> parse_configuration(std::string_view text) {
  auto json = parse_ordered(text);
  if (!json) return json;
  const auto plugins = json->find("plugins");
  if (plugins != json->end() && (!plugins->is_array() || plugins->empty()))
    return fail(Code::kConfig, "plugins: not allowed; allowed: a list of at least one plugin");
  if (plugins == json->end() && !json->contains("type"))
    return fail(Code::kConfig, "neither plugins nor type: no network configuration");
  return json;
}

Shape shape_of(const OrderedJson& configuration) {
  const OrderedJson& first = first_plugin(configuration);
  if (is_multus(first)) {
    const auto delegates = first.find("delegates");
    const bool copied = delegates != first.end() && delegates->is_array() && !delegates->empty() &&
                        delegates->front().is_object();
    return copied ? Shape::kDelegates : Shape::kElsewhere;
  }
  return configuration.contains("plugins") ? Shape::kList : Shape::kSingle;
}

std::string cluster_network(const OrderedJson& configuration) {
  const OrderedJson name = first_plugin(configuration).value("clusterNetwork", OrderedJson());
  return name.is_string() ? name.get<std::string>() : std::string();
}

OrderedJson as_list(OrderedJson single) {
  OrderedJson list = OrderedJson::object();
  for (const char* key : {"cniVersion", "name"})
    if (single.contains(key)) list[key] = single[key];
  single.erase("cniVersion");
  single.erase("name");
  list["plugins"] = OrderedJson::array({std::move(single)});
  return list;
}

bool has_entry(const OrderedJson& configuration) {
  const OrderedJson& network = default_network(configuration);
  const auto plugins = network.find("plugins");
  return plugins != network.end() && std::any_of(plugins->begin(), plugins->end(), is_ours);
}

OrderedJson without_entry(OrderedJson configuration) {
  OrderedJson& network = default_network(configuration);
  if (!network.contains("plugins")) return configuration;
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& plugin : network["plugins"])
    if (!is_ours(plugin)) kept.push_back(plugin);
  network["plugins"] = std::move(kept);
  return configuration;
}

OrderedJson with_entry(OrderedJson configuration, const OrderedJson& entry) {
  configuration = without_entry(std::move(configuration));
  OrderedJson& network = default_network(configuration);
  if (!network.contains("plugins")) network = as_list(std::move(network));
  network["plugins"].push_back(entry);
  return configuration;
}

Outcome<OrderedJson> make_entry(std::string_view settings) {
  auto entry = parse_ordered(settings);
  if (!entry) return fail(entry.error().code, "settings: " + entry.error().message);
  const auto plain = parse_json(settings);
  const auto read = SMC_TRY(read_node_config(*plain));
  if (!read.warnings.empty()) return fail(Code::kConfig, read.warnings.front());
  OrderedJson made = {
      {"type", kPluginType},
      {"capabilities", {{"io.kubernetes.cri.pod-annotations", true}, {"cgroupPath", true}}}};
  made.update(*entry);
  made["type"] = kPluginType;
  return made;
}

}  // namespace fairlead::cni::node
