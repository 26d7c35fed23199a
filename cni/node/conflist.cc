#include "cni/node/conflist.h"

#include <algorithm>
#include <array>

#include "cni/json_text.h"
#include "cni/node_config.h"

namespace fairlead::cni::node {
namespace {

constexpr std::array<std::string_view, 3> kEndings = {".conf", ".conflist", ".json"};

bool is_ours(const OrderedJson& plugin) {
  return plugin.is_object() && plugin.value("type", OrderedJson()) == kPluginType;
}

// Limits first, then once more with the order of the keys.
Outcome<OrderedJson> parse_ordered(std::string_view text) {
  const auto checked = parse_json(text);
  if (!checked) return fail(Code::kDecode, checked.error());
  if (!checked->is_object()) return fail(Code::kDecode, "not an object");
  return OrderedJson::parse(text, nullptr, false);
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

Outcome<OrderedJson> parse_list(std::string_view text) {
  auto json = parse_ordered(text);
  if (!json) return json;
  const auto plugins = json->find("plugins");
  if (plugins != json->end()) {
    if (!plugins->is_array() || plugins->empty())
      return fail(Code::kConfig, "plugins: not allowed; allowed: a list of at least one plugin");
    return json;
  }
  if (!json->contains("type"))
    return fail(Code::kConfig, "neither plugins nor type: no network configuration");
  OrderedJson list = OrderedJson::object();
  for (const char* key : {"cniVersion", "name"})
    if (json->contains(key)) list[key] = (*json)[key];
  json->erase("cniVersion");
  json->erase("name");
  list["plugins"] = OrderedJson::array({std::move(*json)});
  return list;
}

bool has_entry(const OrderedJson& list) {
  const OrderedJson& plugins = list["plugins"];
  return std::any_of(plugins.begin(), plugins.end(), is_ours);
}

OrderedJson without_entry(OrderedJson list) {
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& plugin : list["plugins"])
    if (!is_ours(plugin)) kept.push_back(plugin);
  list["plugins"] = std::move(kept);
  return list;
}

OrderedJson with_entry(OrderedJson list, const OrderedJson& entry) {
  list = without_entry(std::move(list));
  list["plugins"].push_back(entry);
  return list;
}

Outcome<OrderedJson> make_entry(std::string_view settings) {
  auto entry = parse_ordered(settings);
  if (!entry) return fail(entry.error().code, "settings: " + entry.error().message);
  const auto plain = parse_json(settings);
  const auto read = read_node_config(*plain);
  if (!read) return tl::unexpected(read.error());
  if (!read->warnings.empty()) return fail(Code::kConfig, read->warnings.front());
  OrderedJson made = {
      {"type", kPluginType},
      {"capabilities", {{"io.kubernetes.cri.pod-annotations", true}, {"cgroupPath", true}}}};
  made.update(*entry);
  made["type"] = kPluginType;
  return made;
}

}  // namespace fairlead::cni::node
