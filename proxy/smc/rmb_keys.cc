#include "smc/rmb_keys.h"

#include <algorithm>

namespace fairlead::smc {

bool RmbKeys::used(RmbRow row) const {
  const auto& keys = rows_[row].keys;
  return std::any_of(keys.begin(), keys.end(), [](const auto& key) { return key.has_value(); });
}

std::optional<RmbRow> RmbKeys::add(LinkIndex link, const RmbKey& key) {
  std::optional<std::size_t> spare;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].keys[link] == key) return static_cast<RmbRow>(i);
    if (!spare && !used(static_cast<RmbRow>(i))) spare = i;
  }
  if (!spare && rows_.size() == kRmbsMax) return std::nullopt;
  if (!spare) {
    spare = rows_.size();
    rows_.emplace_back();
  }
  rows_[*spare].keys[link] = key;
  ++count_;
  return static_cast<RmbRow>(*spare);
}

std::optional<RmbRow> RmbKeys::find(LinkIndex link, RemoteKey rkey) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::optional<RmbKey>& key = rows_[i].keys[link];
    if (key && key->rkey == rkey) return static_cast<RmbRow>(i);
  }
  return std::nullopt;
}

std::optional<RmbKey> RmbKeys::translate(LinkIndex from, const RmbKey& key, LinkIndex to) const {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].keys[from] == key) return rows_[i].keys[to];
  return std::nullopt;
}

void RmbKeys::remove(RmbRow row) {
  if (!used(row)) return;
  rows_[row] = {};
  --count_;
}

void RmbKeys::remove_link(LinkIndex link) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].keys[link]) continue;
    rows_[i].keys[link].reset();
    if (!used(static_cast<RmbRow>(i))) --count_;
  }
}

}  // namespace fairlead::smc
