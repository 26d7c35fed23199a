// Tracks whether none, one, a few or many sessions of a worker have moved bytes lately.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead::relay {

class Session;

// More active sessions than this are many: both ends have work besides any one of them.
inline constexpr std::size_t kFewActiveMax = 2;
// A session is active if it moved bytes within the latest kActiveTurns turns in which bytes moved.
inline constexpr std::uint64_t kActiveTurns = 64;
// A session is lasting after this many runs. A session with a single request ends before.
inline constexpr unsigned kLastingRuns = 8;

// Identifies sessions by address, and reads how often they ran (`runs`).
template <class S>
class ActiveSet {
 public:
  // A turn begins in which bytes move.
  void turn_began() {
    if (++turns_ % kActiveTurns == 0) sessions_.clear();
  }
  void add(S& session) {
    if (session.runs >= kLastingRuns) lasting_until_ = turns_ + kActiveTurns;
    if (many() || std::find(sessions_.begin(), sessions_.end(), &session) != sessions_.end())
      return;
    sessions_.push_back(&session);
  }
  void remove(S& session) { std::erase(sessions_, &session); }

  // True if an active session is lasting. Only then more bytes are likely to come soon.
  bool lasting() const { return turns_ < lasting_until_; }
  bool many() const { return sessions_.size() > kFewActiveMax; }
  // The active session if there is exactly one, else null.
  S* single() const { return sessions_.size() == 1 ? sessions_.front() : nullptr; }

 private:
  std::vector<S*> sessions_;  // at most kFewActiveMax + 1, which means many
  std::uint64_t turns_ = 0;
  std::uint64_t lasting_until_ = 0;
};

using ActiveSessions = ActiveSet<Session>;

}  // namespace fairlead::relay
