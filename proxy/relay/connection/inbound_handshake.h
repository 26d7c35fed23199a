// The server of a CLC handshake: the client's Proposal, Accept, the client's Confirm, and at first
// contact a new link group. The application is dialled before the Accept, so that a closed port is
// still a refused connection.
#pragma once

#include <memory>
#include <optional>

#include "relay/connection/handshake_stage.h"
#include "wire/clc.h"

namespace fairlead::relay {

// How long a peer that is only assumed to speak SMC may be silent before it is taken for plain TCP.
inline constexpr Duration kClcDetectionTimeout = std::chrono::seconds(2);
// How soon a server looks again for the memory of the client, at first contact. Later looks are
// farther apart.
inline constexpr Duration kClientMemoryInterval = std::chrono::milliseconds(1);

class InboundHandshake final : public HandshakeStage {
 public:
  enum class First : std::uint8_t { kProposal, kFramesOrProposal };
  // `assumed`: the client is to speak SMC by configuration; no option was seen.
  InboundHandshake(SessionResources& session, First first, bool assumed);
  // Behind the client's hand-over.
  InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed);
  // The same, where another process has sent the Accept. The Confirm of a first contact is
  // declined. Others are beyond a Decline, and their connections end.
  struct BehindAccept {};
  InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed, BehindAccept);

  StageResult begin(TimePoint now) override;
  bool parkable(bool at_last) const override {
    return at_last && began_in_frames() && awaits_peer();
  }

 private:
  void await_proposal(Duration timeout);
  std::optional<StageResult> judge_unread(TimePoint now) override;
  StageResult handle_message(TimePoint now) override;
  StageResult handle_proposal(TimePoint now);
  std::optional<FallbackReason> find_way_to_client();
  void handle_wait_over(TimePoint now) override { answer_proposal(now); }
  void answer_proposal(TimePoint now);
  void handle_announced(TimePoint now) override { send_accept(now); }
  void send_accept(TimePoint now);
  StageResult handle_confirm(TimePoint now);
  void connect_first_link(TimePoint now);
  bool check_client_memory(TimePoint now) override;
  void await_client_memory(TimePoint now);
  StageResult handle_stream_end(bool reset, TimePoint now) override;
  StageResult handle_failure(const smc::Handshake::Outcome& outcome, TimePoint now) override;
  StageResult pass_on(smc::Handshake::Outcome outcome);
  StageResult use_tcp(const smc::Handshake::Outcome& outcome) override;
  TimePoint wait_end(TimePoint now) const override;

  bool frames_possible_ = false;  // the client may begin with them
  const bool assumed_ = false;
  bool way_found_ = false;  // the Proposal waits for the application
  bool behind_accept_ = false;
  wire::AcceptConfirm accept_;
  // First contact: CONFIRM_LINK has waited for the client's memory since then.
  std::optional<TimePoint> client_memory_since_;
};

}  // namespace fairlead::relay
