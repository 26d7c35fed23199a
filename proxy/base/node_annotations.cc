#include "base/node_annotations.h"

namespace fairlead::kubernetes {
namespace {

// What `parse` makes of each entry between commas; nothing when it refuses one or there are too
// many.
template <class Entry>
std::optional<std::vector<Entry>> parse_list(std::string_view text,
                                             std::optional<Entry> (*parse)(std::string_view)) {
  std::vector<Entry> entries;
  while (entries.size() < kListEntriesMax) {
    const std::size_t comma = text.find(',');
    const std::optional<Entry> entry = parse(text.substr(0, comma));
    if (!entry) return std::nullopt;
    entries.push_back(*entry);
    if (comma == std::string_view::npos) return entries;
    text.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

std::optional<PortRange> parse_range(std::string_view entry) {
  const std::size_t dash = entry.find('-');
  const auto first = parse_port(entry.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(entry.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

std::optional<Cidr> parse_block(std::string_view entry) {
  if (entry.find('/') == std::string_view::npos) return std::nullopt;
  const Result<Cidr> block = Cidr::parse(entry);
  return block ? std::optional(*block) : std::nullopt;
}

std::optional<ConnectionRule> parse_rule(std::string_view entry) {
  const Result<ConnectionRule> rule = ConnectionRule::parse(entry);
  return rule && to_string(*rule) == entry ? std::optional(*rule) : std::nullopt;
}

}  // namespace

std::optional<std::vector<PortRange>> parse_port_list(std::string_view text) {
  return parse_list(text, parse_range);
}

std::optional<std::vector<Cidr>> parse_cidr_list(std::string_view text) {
  return parse_list(text, parse_block);
}

std::optional<std::vector<ConnectionRule>> parse_rule_list(std::string_view text) {
  return parse_list(text, parse_rule);
}

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "enabled") return true;
  if (text == "disabled") return false;
  return std::nullopt;
}

}  // namespace fairlead::kubernetes
