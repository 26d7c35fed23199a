// Keys of one side's RMBs, link by link. An RMB is registered once per protection domain, and links
// may use different domains. A row is one RMB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace fairlead::smc {

// kLinksPerGroupMax, and one that replaces another before that is deleted.
inline constexpr std::size_t kLinksMax = 4;
inline constexpr std::size_t kRmbsMax = 255;  // per side and link group, as in Linux
// Keys of deleted links that are kept for each RMB. A Confirm that is older than as many links of
// one group names a key that is not known any more.
inline constexpr std::size_t kPreviousKeysMax = 32;

using LinkIndex = std::uint8_t;  // slot in the group, 0 to kLinksMax-1; not the link number
using RmbRow = std::uint8_t;

struct RmbKey {
  RemoteKey rkey;
  RemoteAddress address;  // of the RMB, not of an element
  friend constexpr bool operator==(const RmbKey&, const RmbKey&) = default;
};

class RmbKeys {
 public:
  // The row with this key on this link, created if there is none. Empty if all rows are in use.
  std::optional<RmbRow> add(LinkIndex link, const RmbKey& key);
  // The first row with this key. The cost grows with the logarithm of the rows: a peer may name 255
  // unknown keys in each message.
  std::optional<RmbRow> find(LinkIndex link, RemoteKey rkey) const;
  std::optional<RmbRow> find(LinkIndex link, const RmbKey& key) const;
  const std::optional<RmbKey>& key(RmbRow row, LinkIndex link) const {
    return rows_[row].keys[link];
  }
  void set(RmbRow row, LinkIndex link, const RmbKey& key);
  // The same RMB on another link; empty if it has no key there. An Accept or Confirm may arrive
  // after its link is deleted and the slot has another link. `from` is empty then, and the key
  // alone identifies the RMB.
  std::optional<RmbKey> translate(std::optional<LinkIndex> from, const RmbKey& key,
                                  LinkIndex to) const;
  // True if a link has an RMB with this key, or one of the last deleted links had.
  bool known(const RmbKey& key) const;

  void remove(RmbRow row);
  // Removes the link's keys; an RMB is removed with its last link.
  void remove_link(LinkIndex link);

  std::size_t count() const { return count_; }
  // Upper bound of the rows in use; rows below it without any key are free.
  std::size_t rows() const { return rows_.size(); }
  bool used(RmbRow row) const;

 private:
  struct Row {
    std::array<std::optional<RmbKey>, kLinksMax> keys;
    std::vector<RmbKey> previous;  // of deleted links, the oldest first; at most kPreviousKeysMax
    bool has(const RmbKey& key) const;
    bool had(const RmbKey& key) const;
  };
  // Rows by key, for find(). Entries of removed keys stay until the next refresh.
  struct Index {
    std::vector<std::pair<RemoteKey, RmbRow>> entries;  // sorted
    bool complete = true;                               // has every key of the rows
  };
  void refresh(LinkIndex link) const;

  std::vector<Row> rows_;
  std::size_t count_ = 0;
  mutable std::array<Index, kLinksMax> indices_;
};

}  // namespace fairlead::smc
