// What a link group will do when no flow runs: a link to add, a server's ADD_LINK that waits, and
// when a failed flow is repeated. Deletions that wait are noted in Link and LocalRmbs.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "smc/group/rmb_keys.h"
#include "wire/llc.h"

namespace fairlead::smc {

// Delay before an unanswered ADD_LINK is repeated, and the maximum of consecutive repetitions. The
// peer may have been busy. A Linux client that received CONFIRM_LINK twice ignores the first
// ADD_LINK.
inline constexpr Duration kAddLinkRetryWait = std::chrono::seconds(10);
inline constexpr unsigned kAddLinkRetriesMax = 3;
// A peer whose links are changing answers CONFIRM_RKEY with "retry". Linux also does so if its
// table is full, so retries have a limit.
inline constexpr Duration kConfirmRkeyRetryWait = std::chrono::milliseconds(250);
inline constexpr unsigned kConfirmRkeyRetriesMax = 4;

// Server: no other flow starts before the client has answered that it knows of each lost link.
class LinkLossGuard {
 public:
  void begin(LinkNumber lost, TimePoint until) {
    lost_.set(lost.value);
    until_ = until;
  }
  bool waits() const { return lost_.any(); }
  bool waits_for(LinkNumber number) const { return lost_.test(number.value); }
  // The client has answered for this link.
  void end(LinkNumber number) { lost_.reset(number.value); }
  void end() { lost_.reset(); }
  // Of the last loss.
  std::optional<TimePoint> deadline() const {
    return waits() ? std::optional(until_) : std::nullopt;
  }

 private:
  std::bitset<std::numeric_limits<std::uint8_t>::max() + 1> lost_;  // by number
  TimePoint until_{};
};

class PendingFlows {
 public:
  // Server: another link. What the peer did not answer before is forgotten.
  void want_link(bool wanted) {
    link_wanted_ = wanted;
    link_retries_left_ = kAddLinkRetriesMax;
  }
  bool link_wanted() const { return link_wanted_; }
  void link_begun() {
    link_wanted_ = false;
    link_again_.reset();
  }
  void retry_link_later(TimePoint now) {
    if (link_retries_left_ == 0) return;
    --link_retries_left_;
    link_again_ = now + kAddLinkRetryWait;
  }
  std::optional<TimePoint> link_again() const { return link_again_; }
  void link_is_due() {
    link_again_.reset();
    link_wanted_ = true;
  }

  // Client: one request of the server's may wait; more would be a server that does not.
  bool has_request() const { return request_ != nullptr; }
  void set_request(LinkIndex link, const wire::AddLink& request) {
    request_ = std::make_unique<wire::AddLink>(request);
    request_on_ = link;
  }
  LinkIndex request_on() const { return request_on_; }
  std::unique_ptr<wire::AddLink> take_request() { return std::move(request_); }
  // The server has given this link up before its request was answered.
  void withdraw_request(LinkNumber number) {
    if (request_ && request_->link == number) request_.reset();
  }

  // CONFIRM_RKEY.
  std::optional<TimePoint> announce_again() const { return announce_again_; }
  void announcement_is_due() { announce_again_.reset(); }
  // False if it was repeated often enough.
  bool retry_announcement_later(TimePoint now) {
    if (announce_retries_left_ == 0) return false;
    --announce_retries_left_;
    announce_again_ = now + kConfirmRkeyRetryWait;
    return true;
  }
  void announcement_finished() { announce_retries_left_ = kConfirmRkeyRetriesMax; }

 private:
  bool link_wanted_ = false;
  std::optional<TimePoint> link_again_;
  unsigned link_retries_left_ = 0;
  std::unique_ptr<wire::AddLink> request_;
  LinkIndex request_on_ = 0;
  std::optional<TimePoint> announce_again_;
  unsigned announce_retries_left_ = kConfirmRkeyRetriesMax;
};

}  // namespace fairlead::smc
