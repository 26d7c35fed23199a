// A table with a limit, in which no namespace can exclude another. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace fairlead::injector {

enum class Added : std::uint8_t { kAdded, kDisplaced, kRefused };

template <class Value>
class NamespaceShares {
 public:
  // At most `total_max` values, and a kShare-th of them for one namespace.
  static constexpr std::size_t kShare = 8;
  explicit NamespaceShares(std::size_t total_max)
      : total_max_(total_max), share_max_(total_max / kShare) {}

  // Whether add() would take a value of this namespace.
  bool admits(const std::string& name_space) const {
    const std::size_t own = size_of(name_space);
    if (own >= share_max_) return false;
    return total_ < total_max_ || own + 1 < largest()->second.size();
  }

  // kDisplaced: the table was full, and the oldest value of the namespace with the most was
  // removed. That namespace keeps at least as many as the other one, so displacement ends.
  Added add(const std::string& name_space, Value value) {
    if (!admits(name_space)) return Added::kRefused;
    const bool is_full = total_ >= total_max_;
    if (is_full) pop_front(largest());
    values_[name_space].push_back(std::move(value));
    ++total_;
    return is_full ? Added::kDisplaced : Added::kAdded;
  }

  // The oldest value of each namespace in turn.
  std::optional<Value> take() {
    if (values_.empty()) return std::nullopt;
    auto next = values_.upper_bound(last_taken_);
    if (next == values_.end()) next = values_.begin();
    last_taken_ = next->first;
    std::optional<Value> value(std::move(next->second.front()));
    pop_front(next);
    return value;
  }

  template <class Predicate>
  bool contains(const std::string& name_space, Predicate predicate) const {
    const auto found = values_.find(name_space);
    return found != values_.end() &&
           std::any_of(found->second.begin(), found->second.end(), predicate);
  }

  template <class Predicate>
  void erase_if(Predicate predicate) {
    for (auto at = values_.begin(); at != values_.end();) {
      total_ -= at->second.size();
      std::erase_if(at->second, predicate);
      total_ += at->second.size();
      at = at->second.empty() ? values_.erase(at) : std::next(at);
    }
  }

  bool empty() const { return total_ == 0; }
  std::size_t size() const { return total_; }
  std::size_t size_of(const std::string& name_space) const {
    const auto found = values_.find(name_space);
    return found == values_.end() ? 0 : found->second.size();
  }

 private:
  using Values = std::map<std::string, std::deque<Value>, std::less<>>;

  // REQUIRES: !empty()
  typename Values::const_iterator largest() const {
    return std::max_element(values_.begin(), values_.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
  }

  void pop_front(typename Values::const_iterator at) {
    const auto entry = values_.find(at->first);
    entry->second.pop_front();
    if (entry->second.empty()) values_.erase(entry);
    --total_;
  }

  std::size_t total_max_;
  std::size_t share_max_;
  std::size_t total_ = 0;
  Values values_;  // none of them empty
  std::string last_taken_;
};

}  // namespace fairlead::injector
