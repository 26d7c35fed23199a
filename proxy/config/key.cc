#include "config/key.h"

namespace fairlead::config {

std::string_view describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "without a value";
    case Node::Kind::kScalar:
      return "a single value";
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMapping:
      return "a mapping";
  }
  return "";
}

Node scalar_node(std::string text, bool quoted) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

bool check_list(const Node& node, const std::string& key, ListLimits limits, Reading& reading) {
  const std::string allowed =
      "a list of " + std::to_string(limits.min) + " to " + std::to_string(limits.max) + " items";
  if (node.kind != Node::Kind::kSequence) {
    reading.wrong(node, key, "is " + std::string(describe(node)), allowed);
    return false;
  }
  const std::size_t count = node.items.size();
  if (count >= limits.min && count <= limits.max) return true;
  reading.wrong(node, key, "has " + std::to_string(count) + " items", allowed);
  return false;
}

bool check_mapping(const Node& node, const std::string& where, Reading& reading) {
  if (node.kind == Node::Kind::kNull) return true;
  if (node.kind != Node::Kind::kMapping) {
    reading.wrong(node, where, "is " + std::string(describe(node)),
                  "a mapping, one \"key: value\" a line");
    return false;
  }
  std::map<std::string_view, int> first_line;
  for (const Node& key : node.keys) {
    const auto [first, fresh] = first_line.emplace(key.text, key.line);
    if (fresh) continue;
    reading.wrong(key, where.empty() ? key.text : where + "." + key.text,
                  "is there twice, first in line " + std::to_string(first->second),
                  "each key once");
  }
  return true;
}

std::vector<std::string> children(std::span<const std::string> paths, std::string_view prefix) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    if (!path.starts_with(prefix)) continue;
    std::string name = path.substr(prefix.size());
    name = name.substr(0, name.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

void report_unknown(const Node& key_node, const std::string& where,
                    const std::vector<std::string>& siblings, Reading& reading) {
  std::string message =
      in_quotes(key_node.text) + " is no key of " + (where.empty() ? "this file" : where);
  std::string meant(closest(key_node.text, siblings));
  if (meant.empty()) {
    // Right name, wrong place.
    for (const Key<Config>& key : config_keys())
      if (key.path.ends_with("." + key_node.text)) meant = key.path;
  }
  if (!meant.empty()) message += ", did you mean " + in_quotes(meant) + "?";
  std::string allowed;
  for (const std::string& sibling : siblings) allowed += (allowed.empty() ? "" : ", ") + sibling;
  reading.wrong(key_node, where, std::move(message), allowed);
}

}  // namespace fairlead::config
