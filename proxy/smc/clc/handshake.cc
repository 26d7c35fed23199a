#include "smc/clc/handshake.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace fairlead::smc {

Handshake::Handshake(Role role, const PeerId& own, TimePoint now, Duration timeout)
    : role_(role),
      own_(own),
      timeout_(timeout),
      expected_(role == Role::kServer ? wire::ClcType::kProposal : wire::ClcType::kAccept),
      deadline_(now + timeout) {}

Handshake Handshake::client(const wire::Proposal& proposal, const PeerId& own, TimePoint now,
                            Duration timeout) {
  Handshake handshake(Role::kClient, own, now, timeout);
  handshake.queue(proposal);
  return handshake;
}

Handshake Handshake::server(const PeerId& own, TimePoint now, Duration timeout) {
  return Handshake(Role::kServer, own, now, timeout);
}

Handshake Handshake::behind_proposal(const PeerId& own, TimePoint now, Duration timeout) {
  return Handshake(Role::kClient, own, now, timeout);
}

Handshake Handshake::behind_accept(const PeerId& own, TimePoint now, Duration timeout) {
  Handshake handshake(Role::kServer, own, now, timeout);
  handshake.expected_ = wire::ClcType::kConfirm;
  return handshake;
}

Handshake Handshake::behind_decline(const PeerId& own, FallbackReason reason) {
  Handshake handshake = refusal(own, reason, "");
  handshake.output_written(handshake.output().size());
  return handshake;
}

Handshake Handshake::refusal(const PeerId& own, FallbackReason reason, const char* detail) {
  Handshake handshake(Role::kClient, own, TimePoint{}, Duration{});
  handshake.state_ = State::kInHand;
  handshake.version_ = 1;  // as Linux: nothing is known of the server
  handshake.decline(reason);
  handshake.outcome_.detail = detail;
  return handshake;
}

template <class Message>
void Handshake::queue(const Message& message) {
  // Encoded aside, because the fixed-extent span of an encoder may be longer than what is left
  // here.
  std::array<std::byte, wire::kProposalBytesMax> bytes;
  std::size_t count = 0;
  if constexpr (std::is_same_v<Message, wire::Proposal>)
    count = wire::encode(message, std::span(bytes).template first<wire::kProposalBytesMax>());
  else if constexpr (std::is_same_v<Message, wire::AcceptConfirm>)
    count = wire::encode(message, std::span(bytes).template first<wire::kConfirmBytesMax>());
  else
    count = wire::encode(message, std::span(bytes).template first<wire::kDeclineBytesMax>());
  if (output_empty()) output_count_ = output_written_ = 0;
  SMC_ASSERT(output_count_ + count <= output_.size(), output_count_, count);
  std::memcpy(output_.data() + output_count_, bytes.data(), count);
  output_count_ += count;
}

std::span<const std::byte> Handshake::output() const {
  return {output_.data() + output_written_, output_count_ - output_written_};
}

void Handshake::output_written(std::size_t count) {
  SMC_ASSERT(count <= output_count_ - output_written_, count, output_count_, output_written_);
  output_written_ += count;
}

std::size_t Handshake::handle_bytes(std::span<const std::byte> bytes, TimePoint) {
  const bool listening = state_ == State::kAwaitingPeer || state_ == State::kAwaitingLink;
  if (!listening) return 0;
  const Result<std::size_t> taken = stream_.feed(bytes);
  if (!taken) {
    fail(FallbackReason::kMalformedClc, taken.error().what);
    return 0;
  }
  if (stream_.complete()) take_message();
  return *taken;
}

void Handshake::take_message() {
  const wire::ClcType type = stream_.header().type;
  if (type == wire::ClcType::kDecline) return take_decline();
  if (state_ == State::kAwaitingLink || type != expected_)
    return fail(FallbackReason::kMalformedClc, "CLC type: not the one expected here");
  if (type == wire::ClcType::kProposal) {
    const Result<wire::Proposal> proposal = wire::decode_proposal(stream_.bytes());
    if (!proposal) return fail(FallbackReason::kMalformedClc, proposal.error().what);
    version_ = proposal->version;
    received_ = *proposal;
  } else {
    const Result<wire::AcceptConfirm> answer = wire::decode_accept_confirm(stream_.bytes());
    if (!answer) return fail(FallbackReason::kMalformedClc, answer.error().what);
    version_ = answer->version;
    received_ = *answer;
  }
  stream_.next();
  deadline_.reset();
  state_ = State::kInHand;
}

void Handshake::take_decline() {
  const Result<wire::Decline> decline = wire::decode_decline(stream_.bytes());
  if (!decline) return fail(FallbackReason::kMalformedClc, decline.error().what);
  stream_.next();
  outcome_ = {Side::kPeer, fallback_from_wire(decline->reason), decline->reason,
              decline->out_of_sync, ""};
  deadline_.reset();
  // What we still meant to say is void; a half-written message is not, its rest must follow.
  if (output_written_ == 0) output_count_ = 0;
  state_ = State::kTcp;
}

void Handshake::handle_deadline(TimePoint now) {
  if (!deadline_ || now < *deadline_) return;
  if (state_ == State::kAwaitingPeer)
    return fail(FallbackReason::kHandshakeTimeout, "no answer in time");
  SMC_ASSERT(state_ == State::kAwaitingLink, state_);
  if (!link_overdue_) {
    link_overdue_ = true;
    deadline_ = now + kDeclineWait;
    return;
  }
  decline(FallbackReason::kConfirmLinkTimeout);
}

void Handshake::send_accept(const wire::AcceptConfirm& accept, TimePoint now) {
  SMC_ASSERT(state_ == State::kInHand && expected_ == wire::ClcType::kProposal, state_);
  queue(accept);
  expected_ = wire::ClcType::kConfirm;
  state_ = State::kAwaitingPeer;
  deadline_ = now + timeout_;
}

void Handshake::send_confirm(const wire::AcceptConfirm& confirm) {
  SMC_ASSERT(state_ == State::kInHand && expected_ == wire::ClcType::kAccept, state_);
  queue(confirm);
}

void Handshake::await_link(TimePoint now) {
  SMC_ASSERT(state_ == State::kInHand, state_);
  state_ = State::kAwaitingLink;
  deadline_ = now + (role_ == Role::kServer ? kLinkWaitServer : kLinkWaitClient);
}

void Handshake::establish() {
  SMC_ASSERT(state_ == State::kInHand || state_ == State::kAwaitingLink, state_);
  deadline_.reset();
  state_ = State::kEstablished;
}

void Handshake::decline(FallbackReason reason, bool out_of_sync) {
  SMC_ASSERT(state_ == State::kInHand || state_ == State::kAwaitingLink, state_);
  wire::Decline message;
  message.version = version_;
  message.out_of_sync = out_of_sync;
  message.peer_id = own_;
  message.reason = fallback_info(reason).wire_code;
  queue(message);
  // From the Confirm on, either side may find that the link does not work.
  peer_may_have_declined_ = state_ == State::kAwaitingLink ||
                            (role_ == Role::kServer && expected_ == wire::ClcType::kConfirm);
  outcome_ = {Side::kLocal, reason, 0, out_of_sync, ""};
  deadline_.reset();
  state_ = State::kTcp;
}

void Handshake::fail(FallbackReason reason, const char* detail) {
  outcome_ = {Side::kLocal, reason, 0, false, detail};
  deadline_.reset();
  state_ = State::kFailed;
}

}  // namespace fairlead::smc
