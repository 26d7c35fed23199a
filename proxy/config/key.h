// A key of the file bound to the member of a struct: reads it from a node and writes it back. A
// struct is described by a table of keys; the same table serves the loader, overrides, the dump and
// the list of known keys, so that none of them can forget one.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/codec.h"
#include "config/document.h"
#include "config/error.h"

namespace fairlead::config {

// Where the values of one load come from.
struct Reading {
  Findings& findings;
  std::string file;                   // of the nodes being read
  std::map<std::string, Origin> set;  // what was set, by full key, with the latest place

  Origin origin(const Node& node) const { return {file, node.line, node.column}; }
  void wrong(const Node& node, const std::string& key, std::string message,
             const std::string& allowed) {
    findings.add(origin(node), key, std::move(message) + "; allowed: " + allowed);
  }
};

enum class KeyShape : std::uint8_t {
  kSingle,        // one value
  kSingleOrNone,  // one value, and "" is legal
  kList,
};

template <class Struct>
struct Key {
  std::string path;  // with dots, below the struct
  KeyShape shape = KeyShape::kSingle;
  bool required = false;
  std::function<void(const Node&, const std::string& key, Struct&, Reading&)> read;
  std::function<Node(const Struct&)> write;
  std::vector<std::string> item_keys;  // of a list of structs: the keys of one item
};

// "a list", "nothing", … for messages.
std::string_view describe(const Node& node);

Node scalar_node(std::string text, bool quoted);

// nullopt after reporting, when the node is not the one value that the codec wants.
template <class Codec>
std::optional<typename Codec::Value> read_scalar(const Node& node, const std::string& key,
                                                 const Codec& codec, Reading& reading) {
  if (node.kind != Node::Kind::kScalar) {
    reading.wrong(node, key, "is " + std::string(describe(node)), codec.allowed());
    return std::nullopt;
  }
  if (node.quoted && !Codec::kText) {
    reading.wrong(node, key, in_quotes(node.text) + " is text in quotes",
                  codec.allowed() + ", without quotes");
    return std::nullopt;
  }
  auto value = codec.from(node.text);
  if (value) return std::move(*value);
  reading.wrong(node, key, value.error(), codec.allowed());
  return std::nullopt;
}

// `member` gives the member of a const or mutable struct: [](auto& s) -> auto& { return s.member; }
template <class Struct, class Member, class Codec>
Key<Struct> single(std::string_view path, Member member, Codec codec,
                   KeyShape shape = KeyShape::kSingle) {
  Key<Struct> key;
  key.path = path;
  key.shape = shape;
  key.read = [=](const Node& node, const std::string& name, Struct& target, Reading& reading) {
    if (auto value = read_scalar(node, name, codec, reading)) member(target) = std::move(*value);
  };
  key.write = [=](const Struct& source) {
    return scalar_node(codec.text(member(source)), Codec::kText);
  };
  return key;
}

struct ListLimits {
  std::size_t min, max;
};

// False after reporting, when the node is not a list of a legal length.
bool check_list(const Node& node, const std::string& key, ListLimits limits, Reading& reading);

inline std::string indexed(const std::string& key, std::size_t index) {
  return key + "[" + std::to_string(index) + "]";
}

// A list of single values without repetition.
template <class Struct, class Member, class Codec>
Key<Struct> list_of(std::string_view path, Member member, Codec codec, ListLimits limits) {
  Key<Struct> key;
  key.path = path;
  key.shape = KeyShape::kList;
  key.read = [=](const Node& node, const std::string& name, Struct& target, Reading& reading) {
    if (!check_list(node, name, limits, reading)) return;
    std::vector<typename Codec::Value> values;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const Node& item = node.items[i];
      auto value = read_scalar(item, indexed(name, i), codec, reading);
      if (!value) continue;
      if (std::find(values.begin(), values.end(), *value) != values.end())
        reading.wrong(item, indexed(name, i), in_quotes(item.text) + " is there twice",
                      "each value once");
      values.push_back(std::move(*value));
    }
    member(target) = std::move(values);
  };
  key.write = [=](const Struct& source) {
    Node node;
    node.kind = Node::Kind::kSequence;
    for (const auto& value : member(source))
      node.items.push_back(scalar_node(codec.text(value), Codec::kText));
    return node;
  };
  return key;
}

// False after reporting: repeated keys, or not a mapping. Nothing at all passes as an empty
// mapping.
bool check_mapping(const Node& node, const std::string& where, Reading& reading);

// "unknown key; did you mean …?; allowed: …"
void report_unknown(const Node& key_node, const std::string& where,
                    const std::vector<std::string>& siblings, Reading& reading);

// The names that may follow `prefix` (either "" or ending in a dot) in the table.
std::vector<std::string> children(std::span<const std::string> paths, std::string_view prefix);

template <class Struct>
std::vector<std::string> paths_of(std::span<const Key<Struct>> table) {
  std::vector<std::string> paths;
  for (const Key<Struct>& key : table) paths.push_back(key.path);
  return paths;
}

template <class Struct>
void read_members(const Node& node, const std::string& where, const std::string& prefix,
                  std::span<const Key<Struct>> table, Struct& target, Reading& reading) {
  if (!check_mapping(node, where, reading)) return;
  const std::vector<std::string> paths = paths_of(table);
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string path = prefix + node.keys[i].text;
    const std::string name = where.empty() ? node.keys[i].text : where + "." + node.keys[i].text;
    const auto key = std::find_if(table.begin(), table.end(),
                                  [&](const Key<Struct>& k) { return k.path == path; });
    if (key != table.end()) {
      reading.set[name] = reading.origin(node.items[i]);
      key->read(node.items[i], name, target, reading);
    } else if (!children(paths, path + ".").empty()) {
      read_members(node.items[i], name, path + ".", table, target, reading);
    } else {
      report_unknown(node.keys[i], where, children(paths, prefix), reading);
    }
  }
}

// A list of structs. `shorthand` makes a struct from an item that is a single value; may be empty.
template <class Struct, class Item, class Member>
Key<Struct> list_of_structs(
    std::string_view path, Member member, std::span<const Key<Item>> table, ListLimits limits,
    std::function<std::optional<Item>(const Node&, const std::string&, Reading&)> shorthand = {}) {
  Key<Struct> key;
  key.path = path;
  key.shape = KeyShape::kList;
  key.item_keys = paths_of(table);
  key.read = [=](const Node& node, const std::string& name, Struct& target, Reading& reading) {
    if (!check_list(node, name, limits, reading)) return;
    std::vector<Item> items(node.items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Node& item = node.items[i];
      const std::string where = indexed(name, i);
      reading.set[where] = reading.origin(item);
      if (shorthand && item.kind == Node::Kind::kScalar) {
        items[i] = shorthand(item, where, reading).value_or(Item{});
        continue;
      }
      read_members(item, where, "", table, items[i], reading);
      for (const Key<Item>& member_key : table)
        if (member_key.required && !reading.set.contains(where + "." + member_key.path))
          reading.findings.add(reading.origin(item), where,
                               "lacks the key " + in_quotes(member_key.path));
    }
    member(target) = std::move(items);
  };
  key.write = [=](const Struct& source) {
    Node node;
    node.kind = Node::Kind::kSequence;
    for (const Item& item : member(source)) {
      Node mapping;
      mapping.kind = Node::Kind::kMapping;
      for (const Key<Item>& member_key : table) {
        Node value = member_key.write(item);
        // Absent and empty are the same for the optional members of items.
        if (value.text.empty() && value.items.empty()) continue;
        mapping.keys.push_back(scalar_node(member_key.path, false));
        mapping.items.push_back(std::move(value));
      }
      node.items.push_back(std::move(mapping));
    }
    return node;
  };
  return key;
}

// The table of the whole file.
std::span<const Key<Config>> config_keys();

}  // namespace fairlead::config
