// Which sessions of a worker have moved bytes lately: none, one, a few or many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead::relay {

class Session;

// More active sessions than this are many: both ends have work beside any one of them.
inline constexpr std::size_t kFewActiveMax = 2;
// A session is active if it moved bytes within the latest turns of this number that moved any.
inline constexpr std::uint64_t kActiveTurns = 64;

// Knows sessions by their addresses alone.
template <class S>
class ActiveSet {
 public:
  // A turn moves bytes.
  void turn_began() {
    if (++turns_ % kActiveTurns == 0) sessions_.clear();
  }
  void add(S& session) {
    if (many() || std::find(sessions_.begin(), sessions_.end(), &session) != sessions_.end())
      return;
    sessions_.push_back(&session);
  }
  void remove(S& session) { std::erase(sessions_, &session); }

  bool many() const { return sessions_.size() > kFewActiveMax; }
  // If there is exactly one.
  S* single() const { return sessions_.size() == 1 ? sessions_.front() : nullptr; }

 private:
  std::vector<S*> sessions_;  // at most kFewActiveMax + 1, which stand for many
  std::uint64_t turns_ = 0;
};

using ActiveSessions = ActiveSet<Session>;

}  // namespace fairlead::relay
