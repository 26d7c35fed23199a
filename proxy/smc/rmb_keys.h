// Under which keys the RMBs of one side can be written to, link by link: an RMB is registered once
// a protection domain, and each link may be of another. A row is one RMB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace fairlead::smc {

inline constexpr std::size_t kLinksMax = 3;
inline constexpr std::size_t kRmbsMax = 255;  // per side and link group, as in Linux

using LinkIndex = std::uint8_t;  // slot in the group, 0 to kLinksMax-1; not the link number
using RmbRow = std::uint8_t;

struct RmbKey {
  RemoteKey rkey;
  RemoteAddress address;  // of the RMB, not of an element
  friend constexpr bool operator==(const RmbKey&, const RmbKey&) = default;
};

class RmbKeys {
 public:
  // The row with this key on this link; made when there is none. Nothing when all rows are taken.
  std::optional<RmbRow> add(LinkIndex link, const RmbKey& key);
  std::optional<RmbRow> find(LinkIndex link, RemoteKey rkey) const;
  std::optional<RmbRow> find(LinkIndex link, const RmbKey& key) const;
  const std::optional<RmbKey>& key(RmbRow row, LinkIndex link) const {
    return rows_[row].keys[link];
  }
  void set(RmbRow row, LinkIndex link, const RmbKey& key) { rows_[row].keys[link] = key; }
  // The same RMB on another link. An Accept or Confirm may take so long that the link it speaks of
  // is no more, and its slot another's; then the key alone tells, as long as it was the last there.
  std::optional<RmbKey> translate(LinkIndex from, const RmbKey& key, LinkIndex to) const;
  // Some link has, or the last one in a slot had, an RMB under this key.
  bool known(const RmbKey& key) const;

  void remove(RmbRow row);
  // The link is gone; with its last link goes the RMB.
  void remove_link(LinkIndex link);

  std::size_t count() const { return count_; }
  // Rows in use lie below; those without any key among them are free.
  std::size_t rows() const { return rows_.size(); }
  bool used(RmbRow row) const;

 private:
  struct Row {
    std::array<std::optional<RmbKey>, kLinksMax> keys;
    std::array<std::optional<RmbKey>, kLinksMax> former;  // of the link that had the slot before
    bool has(const RmbKey& key) const;
  };
  std::vector<Row> rows_;
  std::size_t count_ = 0;
};

}  // namespace fairlead::smc
