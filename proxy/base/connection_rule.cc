#include "base/connection_rule.h"

#include <algorithm>

namespace fairlead {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(words.back().size());
  }
}

}  // namespace

Result<ConnectionRule> ConnectionRule::parse(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return Error{Errc::kMalformed, "neither a block nor ports"};
  ConnectionRule rule;
  std::size_t at = 0;
  if (words[0] != "port") {
    const Result<Cidr> block = Cidr::parse(words[0]);
    if (!block) return block.error();
    rule.cidr = *block;
    if (words.size() == 1) return rule;
    if (words[1] != "port")
      return Error{Errc::kMalformed, "the word port is expected behind the block"};
    at = 1;
  }
  const std::size_t ports = words.size() - at - 1;
  if (ports == 0) return Error{Errc::kMalformed, "no number behind the word port"};
  if (ports > kRulePortsMax) return Error{Errc::kMalformed, "more than 64 ports"};
  for (std::size_t i = at + 1; i < words.size(); ++i) {
    const std::optional<std::uint16_t> port = parse_port(words[i]);
    if (!port) return Error{Errc::kMalformed, "a port is a number from 1 to 65535"};
    rule.ports.push_back(*port);
  }
  return rule;
}

bool ConnectionRule::matches(const SocketAddress& peer, std::uint16_t server_port) const {
  if (cidr && !cidr->contains(peer)) return false;
  return ports.empty() || std::find(ports.begin(), ports.end(), server_port) != ports.end();
}

bool ConnectionRule::overlaps(const ConnectionRule& other) const {
  if (cidr && other.cidr && !cidr->overlaps(*other.cidr)) return false;
  return ports.empty() || other.ports.empty() ||
         std::find_first_of(ports.begin(), ports.end(), other.ports.begin(), other.ports.end()) !=
             ports.end();
}

const ConnectionRule* first_overlapping(const std::vector<ConnectionRule>& rules,
                                        const ConnectionRule& rule) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const ConnectionRule& one) { return one.overlaps(rule); });
  return found == rules.end() ? nullptr : &*found;
}

std::string to_string(const ConnectionRule& rule) {
  std::string text = rule.cidr ? to_string(*rule.cidr) : "";
  if (rule.ports.empty()) return text;
  text += text.empty() ? "port" : " port";
  for (const std::uint16_t port : rule.ports) text += " " + std::to_string(port);
  return text;
}

}  // namespace fairlead
