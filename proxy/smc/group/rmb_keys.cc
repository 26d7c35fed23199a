#include "smc/group/rmb_keys.h"

#include <algorithm>
#include <utility>

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
  set(static_cast<RmbRow>(*spare), link, key);
  ++count_;
  return static_cast<RmbRow>(*spare);
}

void RmbKeys::set(RmbRow row, LinkIndex link, const RmbKey& key) {
  rows_[row].keys[link] = key;
  indices_[link].complete = false;
}

void RmbKeys::refresh(LinkIndex link) const {
  Index& index = indices_[link];
  if (std::exchange(index.complete, true)) return;
  index.entries.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (const std::optional<RmbKey>& key = rows_[i].keys[link])
      index.entries.emplace_back(key->rkey, static_cast<RmbRow>(i));
  std::sort(index.entries.begin(), index.entries.end());
}

std::optional<RmbRow> RmbKeys::find(LinkIndex link, const RmbKey& key) const {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].keys[link] == key) return static_cast<RmbRow>(i);
  return std::nullopt;
}

std::optional<RmbRow> RmbKeys::find(LinkIndex link, RemoteKey rkey) const {
  refresh(link);
  const auto& entries = indices_[link].entries;
  auto at = std::lower_bound(entries.begin(), entries.end(), std::pair(rkey, RmbRow{0}));
  // A key that was set since would have been sorted in; one that was removed has left its entry.
  for (; at != entries.end() && at->first == rkey; ++at)
    if (rows_[at->second].keys[link]) return at->second;
  return std::nullopt;
}

bool RmbKeys::Row::has(const RmbKey& key) const {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool RmbKeys::Row::had(const RmbKey& key) const {
  return std::find(previous.begin(), previous.end(), key) != previous.end();
}

// A key in use precedes the same key of a deleted link: a device may give a key a second time.
std::optional<RmbKey> RmbKeys::translate(std::optional<LinkIndex> from, const RmbKey& key,
                                         LinkIndex to) const {
  if (from) {
    for (const Row& row : rows_)
      if (row.keys[*from] == key) return row.keys[to];
  }
  for (const Row& row : rows_)
    if (row.has(key)) return row.keys[to];
  for (const Row& row : rows_)
    if (row.had(key)) return row.keys[to];
  return std::nullopt;
}

bool RmbKeys::known(const RmbKey& key) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return row.has(key) || row.had(key); });
}

void RmbKeys::remove(RmbRow row) {
  if (!used(row)) return;
  rows_[row] = {};
  --count_;
}

void RmbKeys::remove_link(LinkIndex link) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].keys[link]) continue;
    std::vector<RmbKey>& previous = rows_[i].previous;
    if (previous.size() == kPreviousKeysMax) previous.erase(previous.begin());
    previous.push_back(*std::exchange(rows_[i].keys[link], std::nullopt));
    if (used(static_cast<RmbRow>(i))) continue;
    rows_[i] = {};
    --count_;
  }
}

}  // namespace fairlead::smc
