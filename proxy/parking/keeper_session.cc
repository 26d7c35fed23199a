#include "parking/keeper_session.h"

#include <array>
#include <utility>

#include "base/record_socket.h"

namespace fairlead::parking {

using Kind = KeeperRecord::Kind;
using Refusal = KeeperRecord::Refusal;

KeeperSession::KeeperSession(FileDescriptor socket, const ParcelLimits& limits,
                             DescriptorCloser& closer, std::unique_ptr<Parcel> held)
    : socket_(std::move(socket), closer),
      limits_(limits),
      closer_(closer),
      parcel_(std::move(held)),
      receiver_(limits),
      living_max_(limits.descriptors) {}

void KeeperSession::set_limits(const ParcelLimits& limits, std::uint32_t living) {
  living_max_ = living;
  if (receiver_.begun()) return;
  limits_ = limits;
  receiver_ = ParcelReceiver(limits);
}

Result<void> KeeperSession::say(const KeeperRecord& record) {
  return send_record(socket_.get(), encode(record), {});
}

Result<void> KeeperSession::ask_to_park() {
  KeeperRecord record;
  record.kind = Kind::kPark;
  return say(record);
}

Result<void> KeeperSession::advance() {
  if (!greeted_) SMC_TRY(greet());
  if (sender_) SMC_TRY(give());
  return receive();
}

Result<void> KeeperSession::greet() {
  KeeperRecord hello;
  hello.count = limits_.descriptors;
  hello.bytes = limits_.bytes;
  hello.holds = parcel_ != nullptr;
  hello.holds_living = true;
  SMC_TRY(say(hello));
  greeted_ = true;
  if (!parcel_) return {};
  state_ = State::kGiving;
  sender_.emplace(socket_.get(), *parcel_);
  return {};
}

Result<void> KeeperSession::give() {
  const bool done = SMC_TRY(sender_->advance());
  if (done) sender_.reset();
  return {};
}

Result<void> KeeperSession::receive() {
  if (early_) {
    if (std::chrono::steady_clock::now() < rests_until_) return {};
    Early early = std::move(*early_);
    early_.reset();
    SMC_TRY(take(early.record, {&early.description, 1}));
  }
  // A proxy that never stops talking does not keep the owner from others.
  constexpr int kRecordsPerTurn = 64;
  for (int i = 0; i < kRecordsPerTurn && state_ != State::kReceived && !early_; ++i) {
    if (closer_.full()) return {};
    const bool more = SMC_TRY(receive_one());
    if (!more) return {};
  }
  return {};
}

Result<bool> KeeperSession::receive_one() {
  std::array<std::byte, 64> bytes;
  auto received = receive_record(socket_.get(), bytes, closer_);
  if (!received && received.error().code == Errc::kWouldBlock) return false;
  if (!received) return received.error();
  const std::size_t count = std::min(received->descriptors, received->fds.size());
  if (received->descriptors > received->fds.size())
    return refuse(Refusal::kMalformed,
                  Error{Errc::kMalformed, "more descriptors than a record has"})
        .error();
  const KeeperRecord record = SMC_TRY(decode_record(std::span(bytes).first(received->size_bytes)));
  if (record.kind == Kind::kParcel && count == 1 &&
      std::chrono::steady_clock::now() < rests_until_) {
    early_.emplace(Early{record, std::move(received->fds[0])});
    return true;
  }
  SMC_TRY(take(record, std::span(received->fds).first(count)));
  return true;
}

Result<void> KeeperSession::take(const KeeperRecord& record,
                                 std::span<ForeignDescriptor> descriptors) {
  switch (record.kind) {
    case Kind::kTaken:
    case Kind::kRefused:
      if (state_ != State::kGiving || sender_)
        return Error{Errc::kMalformed, "an answer to no parcel"};
      state_ = State::kIdle;
      answer_ = record.kind == Kind::kTaken ? Refusal::kNone : record.refusal;
      parcel_.reset();
      return {};
    case Kind::kParcel:
    case Kind::kDescriptors:
      break;
    case Kind::kLedger:
    case Kind::kHold:
    case Kind::kRelease:
      return take_living(record, descriptors);
    case Kind::kHello:
    case Kind::kPark:
      return Error{Errc::kMalformed, "a keeper's record from a proxy"};
  }
  if (state_ == State::kGiving)
    return refuse(Refusal::kBusy, Error{Errc::kMalformed, "a parcel while another is given"});
  state_ = State::kReceiving;
  Result<std::optional<Parcel>> whole = receiver_.take(record, descriptors);
  if (!whole) {
    const bool limit = whole.error().code == Errc::kExhausted;
    const Refusal why = !limit                               ? Refusal::kMalformed
                        : record.count > limits_.descriptors ? Refusal::kDescriptors
                                                             : Refusal::kBytes;
    return refuse(why, whole.error());
  }
  if (!*whole) return {};
  parcel_ = std::make_unique<Parcel>(std::move(**whole));
  state_ = State::kReceived;
  living_.reset();
  KeeperRecord taken;
  taken.kind = Kind::kTaken;
  taken.count = static_cast<std::uint32_t>(parcel_->descriptors.size());
  // Without an answer the proxy ends what it has parked here: then we keep nothing either.
  const Result<void> said = say(taken);
  if (!said) parcel_.reset();
  return said;
}

Result<void> KeeperSession::take_living(const KeeperRecord& record,
                                        std::span<ForeignDescriptor> descriptors) {
  if (state_ != State::kIdle || (record.kind == Kind::kLedger) == living_.has_value())
    return Error{Errc::kMalformed, "living connections out of order"};
  if (living_) return living_->take(record, descriptors, living_max_);
  living_ = SMC_TRY(LivingConnections::of(record, descriptors));
  return {};
}

std::optional<LivingConnections::Remains> KeeperSession::take_remains(TimePoint died,
                                                                      std::uint64_t bytes_max) {
  if (!living_ || parcel_) return std::nullopt;
  std::optional<LivingConnections::Remains> remains = std::move(*living_).remains(died, bytes_max);
  living_.reset();
  return remains;
}

Result<void> KeeperSession::refuse(Refusal refusal, const Error& why) {
  KeeperRecord record;
  record.kind = Kind::kRefused;
  record.refusal = refusal;
  (void)say(record);
  return why;
}

}  // namespace fairlead::parking
