#include "base/encrypted_paths.h"

#include <algorithm>
#include <utility>

namespace fairlead {
namespace {

constexpr std::string_view kAll = "all";

unsigned common_bits(const Cidr& a, const Cidr& b) {
  const unsigned most = std::min(a.prefix_length(), b.prefix_length());
  unsigned bits = 0;
  while (bits < most && ((a.network()[bits / 8] ^ b.network()[bits / 8]) >> (7 - bits % 8)) == 0)
    ++bits;
  return bits;
}

bool covers(const Cidr& a, const Cidr& b) {
  return a.family() == b.family() && common_bits(a, b) == a.prefix_length();
}

Cidr joined(const Cidr& a, const Cidr& b) {
  return Cidr::around(a.family(), a.network(), common_bits(a, b));
}

// A block before those that it covers.
bool before(const Cidr& a, const Cidr& b) {
  if (a.family() != b.family()) return a.family() == AF_INET;
  const auto one = a.network(), other = b.network();
  if (!std::equal(one.begin(), one.end(), other.begin()))
    return std::lexicographical_compare(one.begin(), one.end(), other.begin(), other.end());
  return a.prefix_length() < b.prefix_length();
}

// Two halves of one block.
bool are_halves(const Cidr& a, const Cidr& b) {
  return a.family() == b.family() && a.prefix_length() == b.prefix_length() &&
         common_bits(a, b) + 1 == a.prefix_length();
}

// `blocks` are sorted. Pushes one after another on a stack whose top takes in what it covers.
std::vector<Cidr> merged(std::vector<Cidr> blocks) {
  std::vector<Cidr> kept;
  for (const Cidr& block : blocks) {
    if (!kept.empty() && covers(kept.back(), block)) continue;
    kept.push_back(block);
    while (kept.size() > 1 && are_halves(kept[kept.size() - 2], kept.back())) {
      const Cidr whole = joined(kept[kept.size() - 2], kept.back());
      kept.pop_back();
      kept.back() = whole;
    }
  }
  return kept;
}

std::string text_of(const std::vector<Cidr>& blocks) {
  std::string text;
  for (const Cidr& block : blocks) text += (text.empty() ? "" : ",") + to_string(block);
  return text;
}

// Joins the two neighbours that have the most bits in common. False when no two are of one family.
bool widen(std::vector<Cidr>& blocks) {
  std::optional<std::size_t> best;
  unsigned best_bits = 0;
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
    if (blocks[i].family() != blocks[i + 1].family()) continue;
    const unsigned bits = common_bits(blocks[i], blocks[i + 1]);
    if (best && bits <= best_bits) continue;
    best = i;
    best_bits = bits;
  }
  if (!best) return false;
  blocks[*best] = joined(blocks[*best], blocks[*best + 1]);
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  blocks = merged(std::move(blocks));
  return true;
}

}  // namespace

bool EncryptedPaths::contains(const SocketAddress& destination) const {
  return all || std::any_of(blocks.begin(), blocks.end(),
                            [&](const Cidr& block) { return block.contains(destination); });
}

EncryptedPaths simplified(EncryptedPaths paths) {
  if (paths.all) return {true, {}};
  std::sort(paths.blocks.begin(), paths.blocks.end(), before);
  paths.blocks = merged(std::move(paths.blocks));
  return paths;
}

std::string to_text(const EncryptedPaths& paths, std::size_t bytes_max) {
  if (paths.none()) return "";
  EncryptedPaths shown = simplified(paths);
  while (!shown.all) {
    std::string text = text_of(shown.blocks);
    if (text.size() <= bytes_max) return text;
    shown.all = !widen(shown.blocks);
  }
  return std::string(kAll);
}

std::optional<EncryptedPaths> parse_encrypted_paths(std::string_view text) {
  EncryptedPaths paths;
  if (text == kAll) return EncryptedPaths{true, {}};
  do {
    const std::size_t end = std::min(text.find(','), text.size());
    const Result<Cidr> block = Cidr::parse(text.substr(0, end));
    if (!block) return std::nullopt;
    paths.blocks.push_back(*block);
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return paths;
}

}  // namespace fairlead
