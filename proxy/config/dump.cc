#include "config/dump.h"

#include <algorithm>

#include "config/key.h"

namespace fairlead::config {
namespace {

constexpr std::size_t kIndentChars = 2;

// Plain where no reader could take it for anything but this text.
std::string scalar_text(const Node& node) {
  if (!node.quoted) return node.text;
  const std::string& text = node.text;
  const bool plain = !text.empty() && text != "null" && text != "Null" && text != "NULL" &&
                     text.find("::") == std::string::npos && text.front() != '-' &&
                     text.back() != ':' && std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '/' || c == '.' || c == ':' ||
                              c == '-' || c == '_';
                     });
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

bool all_scalars(const Node& list) {
  return std::all_of(list.items.begin(), list.items.end(),
                     [](const Node& item) { return item.kind == Node::Kind::kScalar; });
}

std::string flow_list(const Node& list) {
  std::string out = "[";
  for (const Node& item : list.items) out += (out.size() > 1 ? ", " : "") + scalar_text(item);
  return out + "]";
}

void append_mapping_item(const Node& mapping, std::size_t indent, std::string& out) {
  for (std::size_t i = 0; i < mapping.keys.size(); ++i) {
    const Node& value = mapping.items[i];
    out += std::string(indent, ' ') + (i == 0 ? "- " : "  ") + mapping.keys[i].text + ": ";
    out += value.kind == Node::Kind::kSequence ? flow_list(value) : scalar_text(value);
    out += '\n';
  }
}

void append_value(const Node& value, std::size_t indent, std::string& out) {
  if (value.kind == Node::Kind::kSequence && !all_scalars(value)) {
    out += '\n';
    for (const Node& item : value.items) append_mapping_item(item, indent + kIndentChars, out);
    return;
  }
  out += ' ';
  out += value.kind == Node::Kind::kSequence ? flow_list(value) : scalar_text(value);
  out += '\n';
}

}  // namespace

std::string to_yaml(const Config& config) {
  std::string out;
  std::string section;  // of the line before, with a dot behind each level
  for (const Key<Config>& key : config_keys()) {
    // Open the levels that this key does not share with the one before.
    std::size_t level_begin = 0, depth = 0;
    for (std::size_t dot = key.path.find('.'); dot != std::string::npos;
         dot = key.path.find('.', level_begin), ++depth) {
      const std::string level = key.path.substr(0, dot + 1);
      if (!section.starts_with(level))
        out += std::string(depth * kIndentChars, ' ') +
               key.path.substr(level_begin, dot - level_begin) + ":\n";
      level_begin = dot + 1;
    }
    section = key.path.substr(0, level_begin);
    out += std::string(depth * kIndentChars, ' ') + key.path.substr(level_begin) + ":";
    append_value(key.write(config), depth * kIndentChars, out);
  }
  return out;
}

}  // namespace fairlead::config
