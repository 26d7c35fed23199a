// One link of a group: a queue pair seen by the protocol. Holds its state and the TEST_LINK timer;
// the flows that involve the group as a whole are in link_group.h.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "wire/llc.h"

namespace fairlead::smc {

// Maximum time for a peer's answer to an LLC request (Linux waits as long).
inline constexpr Duration kLlcAnswerWait = std::chrono::seconds(2);
inline constexpr Duration kConfirmLinkRepeat = std::chrono::seconds(1);

enum class LinkState : std::uint8_t {
  kActivating,  // CONFIRM_LINK is under way
  kActive,
  kDown,  // failed or deleted; the slot waits for its release
};

struct LinkIdentity {
  Gid gid;
  Mac mac;
  QpNumber queue_pair;
};

// Why a link is tested ahead of its time.
enum class Doubt : std::uint8_t {
  kPeerGone,  // a sign that the peer is gone
  kDisowned,  // an out of sync Decline named the link; its sender may be another than the peer
};

class Link {
 public:
  Link(LinkNumber number, const LinkIdentity& local, TimePoint now)
      : number_(number), local_(local), last_received_(now) {}

  LinkNumber number() const { return number_; }
  LinkState state() const { return state_; }
  const LinkIdentity& local() const { return local_; }
  const LinkIdentity& peer() const { return peer_; }
  void set_peer(const LinkIdentity& peer) { peer_ = peer; }
  void set_number(LinkNumber number) { number_ = number; }
  void set_state(LinkState state) {
    state_ = state;
    confirm_again_.reset();
  }

  // A server repeats CONFIRM_LINK once: a Linux client may drop it while it still sends its
  // Confirm.
  void set_confirm_sent(TimePoint now) { confirm_again_ = now + kConfirmLinkRepeat; }
  std::optional<TimePoint> confirm_again() const { return confirm_again_; }
  void set_confirm_repeated() { confirm_again_.reset(); }

  // DELETE_LINK will be sent for the link, or has been; that cannot be taken back.
  void want_deletion(wire::DeleteLinkReason reason) { deletion_ = reason; }
  void keep() { deletion_.reset(); }
  std::optional<wire::DeleteLinkReason> deletion() const { return deletion_; }

  // Any received message proves that the peer is alive. Cheap, called for every message.
  void handle_received(TimePoint now) { last_received_ = now; }

  // Sends TEST_LINK now instead of after the interval.
  void doubt(Doubt why, TimePoint now) {
    disowned_ = disowned_ || why == Doubt::kDisowned;
    if (!test_sent_) doubted_ = now;
  }
  // Until the test is answered new connections do not use the link.
  bool disowned() const { return disowned_; }

  // The TEST_LINK timer. `interval` 0 switches it off, except after doubt().
  enum class TestStep : std::uint8_t { kNothing, kSend, kDead };
  TestStep handle_test_deadline(TimePoint now, Duration interval);
  std::optional<TimePoint> test_deadline(Duration interval) const;
  // User data for the TEST_LINK that kSend asked for.
  std::array<std::byte, 16> test_data() const;
  // The round trip if `data` answers the outstanding request.
  std::optional<Duration> handle_test_response(const std::array<std::byte, 16>& data,
                                               TimePoint now);

 private:
  LinkNumber number_;
  LinkIdentity local_;
  LinkIdentity peer_;
  LinkState state_ = LinkState::kActivating;
  std::optional<TimePoint> confirm_again_;
  std::optional<wire::DeleteLinkReason> deletion_;
  TimePoint last_received_;
  std::optional<TimePoint> doubted_;
  std::optional<TimePoint> test_sent_;
  std::uint64_t test_count_ = 0;
  bool disowned_ = false;
};

}  // namespace fairlead::smc
