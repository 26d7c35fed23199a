// The CLC handshake of one connection, in either role. Sans-IO: bytes of the TCP stream go in and
// come out, the caller owns socket and clock and decides about devices, groups and buffers in
// between. Read first: docs/wire.md, "CLC"; RFC 7609 section 3.5.
//
// How to drive it: write output() to the stream, calling output_written(); give it what was read
// with handle_bytes(), which takes no byte beyond its message; then look at state():
//
// clang-format off
//   kAwaitingPeer   a message is expected
//   kInHand         a message has come (proposal() or answer()); call send_accept(),
//                   send_confirm(), await_link(), establish() or decline()
//   kAwaitingLink   first contact: CONFIRM_LINK is under way on the queue pair;
//                   call link_confirmed()
//   kEstablished    SMC-R; bytes on the stream have no meaning any more
//   kTcp            agreed on TCP; the stream belongs to the application from here on
//   kFailed         the stream cannot be used: the peer was silent or sent no CLC
// clang-format on
//
// Timers, all through next_deadline(): kAwaitingPeer `timeout`; kAwaitingLink kLinkWaitServer or
// kLinkWaitClient, then kDeclineWait in which a Decline of the peer goes first.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <variant>

#include "base/fallback.h"
#include "base/time.h"
#include "smc/clc/clc_stream.h"
#include "wire/clc.h"

namespace fairlead::smc {

inline constexpr Duration kLinkWaitClient = std::chrono::seconds(4);
inline constexpr Duration kLinkWaitServer = std::chrono::seconds(3);
inline constexpr Duration kDeclineWait = std::chrono::seconds(1);

class Handshake {
 public:
  enum class State : std::uint8_t {
    kAwaitingPeer,
    kInHand,
    kAwaitingLink,
    kEstablished,
    kTcp,
    kFailed,
  };

  // Why the connection does not use SMC-R; in kTcp and kFailed.
  struct Outcome {
    Side side = Side::kLocal;
    FallbackReason reason = FallbackReason::kInternal;
    std::uint32_t peer_code = 0;  // as the peer's Decline said it
    bool out_of_sync = false;     // the group of this connection must be terminated
    const char* detail = "";      // the offending field of a malformed message
  };

  static Handshake client(const wire::Proposal& proposal, const PeerId& own, TimePoint now,
                          Duration timeout);
  static Handshake server(const PeerId& own, TimePoint now, Duration timeout);
  // Handshake of a client that declines SMC towards a server that awaits CLC because it saw the
  // option. Begins in kTcp, with a Decline to write.
  static Handshake refusal(const PeerId& own, FallbackReason reason, const char* detail);
  // Goes on where another process has sent the Proposal of a client, or the Accept of a server.
  // What the peer answers can only be declined, because link group and buffers have gone with that
  // process.
  static Handshake behind_proposal(const PeerId& own, TimePoint now, Duration timeout);
  static Handshake behind_accept(const PeerId& own, TimePoint now, Duration timeout);
  // The same where it has sent a Decline of a client. In kTcp, with nothing to write.
  static Handshake behind_decline(const PeerId& own, FallbackReason reason);

  State state() const { return state_; }
  // Server: no byte has arrived yet.
  bool proposal_awaited() const {
    return state_ == State::kAwaitingPeer && expected_ == wire::ClcType::kProposal &&
           stream_.empty();
  }
  const Outcome& outcome() const { return outcome_; }
  // True if this side declined while the peer may have declined too. The peer's Decline may still
  // arrive before the bytes of the application.
  bool peer_may_have_declined() const { return peer_may_have_declined_; }
  const wire::Proposal& proposal() const { return std::get<wire::Proposal>(received_); }
  const wire::AcceptConfirm& answer() const { return std::get<wire::AcceptConfirm>(received_); }
  // Bytes of an unfinished or refused message. The relay passes them on if the peer turns out not
  // to speak SMC.
  std::span<const std::byte> unconsumed() const { return stream_.bytes(); }

  std::size_t handle_bytes(std::span<const std::byte> bytes, TimePoint now);
  void handle_deadline(TimePoint now);
  Deadline next_deadline() const { return deadline_; }

  void send_accept(const wire::AcceptConfirm& accept, TimePoint now);
  void send_confirm(const wire::AcceptConfirm& confirm);
  // The queue pair waits for CONFIRM_LINK.
  void await_link(TimePoint now);
  void link_confirmed() { establish(); }
  void establish();
  // Queues a Decline; the stream is TCP behind it.
  void decline(FallbackReason reason, bool out_of_sync = false);

  std::span<const std::byte> output() const;
  void output_written(std::size_t count);
  bool output_empty() const { return output_written_ == output_count_; }

 private:
  enum class Role : std::uint8_t { kClient, kServer };
  Handshake(Role role, const PeerId& own, TimePoint now, Duration timeout);
  template <class Message>
  void queue(const Message& message);
  void take_message();
  void take_decline();
  void fail(FallbackReason reason, const char* detail);

  Role role_;
  PeerId own_;
  Duration timeout_;
  State state_ = State::kAwaitingPeer;
  wire::ClcType expected_;
  std::uint8_t version_ = 2;
  bool link_overdue_ = false;
  bool peer_may_have_declined_ = false;
  std::optional<TimePoint> deadline_;
  Outcome outcome_;
  ClcStream stream_;
  std::variant<std::monostate, wire::Proposal, wire::AcceptConfirm> received_;
  // A Decline may have to follow a Confirm that is not written yet.
  std::array<std::byte, wire::kProposalBytesMax + wire::kDeclineBytesMax> output_{};
  std::size_t output_count_ = 0;
  std::size_t output_written_ = 0;
};

}  // namespace fairlead::smc
