#include "parking/keeper_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/linux/record_socket.h"

namespace fairlead::parking {

using Kind = KeeperRecord::Kind;
using Refusal = KeeperRecord::Refusal;

KeeperSession::KeeperSession(FileDescriptor socket, KeeperTerms terms, DescriptorCloser& closer,
                             std::unique_ptr<Parcel> held)
    : socket_(std::move(socket), closer),
      terms_(std::move(terms)),
      closer_(closer),
      state_(std::in_place_type<Greeting>, std::move(held)) {}

bool KeeperSession::wants_to_write() const {
  const auto* const giving = std::get_if<Giving>(&state_);
  return std::holds_alternative<Greeting>(state_) || (giving != nullptr && !giving->sent);
}

KeeperSession::Stage KeeperSession::stage() const {
  struct StageOf {
    Stage operator()(const Greeting&) const { return Stage::kIdle; }
    Stage operator()(const Idle&) const { return Stage::kIdle; }
    Stage operator()(const Giving&) const { return Stage::kGiving; }
    Stage operator()(const Promised&) const { return Stage::kPromised; }
    Stage operator()(const Receiving&) const { return Stage::kReceiving; }
    Stage operator()(const Fetching&) const { return Stage::kReceiving; }
  };
  return std::visit(StageOf{}, state_);
}

std::unique_ptr<Parcel> KeeperSession::take_held() {
  if (auto* const greeting = std::get_if<Greeting>(&state_)) return std::move(greeting->held);
  auto* const giving = std::get_if<Giving>(&state_);
  if (giving == nullptr) return nullptr;
  std::unique_ptr<Parcel> held = std::move(giving->parcel);
  state_.emplace<Idle>();
  return held;
}

Result<void> KeeperSession::say(const KeeperRecord& record) {
  return send_record(socket_.get(), encode(record), {});
}

Result<void> KeeperSession::ask_to_park() {
  KeeperRecord record;
  record.kind = Kind::kPark;
  return say(record);
}

Result<KeeperSession::Event> KeeperSession::advance() {
  if (std::holds_alternative<Greeting>(state_)) SMC_TRY(greet());
  SMC_TRY(give());
  if (std::holds_alternative<Fetching>(state_)) return fetch();
  // A proxy that never stops sending must not keep the owner from its other work.
  constexpr int kRecordsPerTurn = 64;
  for (int i = 0; i < kRecordsPerTurn; ++i) {
    if (closer_.full()) return Event();
    std::optional<Event> event = SMC_TRY(receive_one());
    if (!event) return Event();
    if (!std::holds_alternative<std::monostate>(*event)) return std::move(*event);
    if (std::holds_alternative<Fetching>(state_)) return Event();
  }
  return Event();
}

Result<void> KeeperSession::greet() {
  const auto& greeting = std::get<Greeting>(state_);
  KeeperRecord hello;
  hello.count = terms_.limits.descriptors;
  hello.bytes = terms_.limits.bytes;
  hello.holds = greeting.held != nullptr;
  hello.answers_offers = true;
  hello.fetches = terms_.process.has_value();
  SMC_TRY(say(hello));
  // emplace() destroys the present state before it creates the next one.
  std::unique_ptr<Parcel> held = std::move(std::get<Greeting>(state_).held);
  if (held)
    state_.emplace<Giving>(socket_.get(), std::move(held));
  else
    state_.emplace<Idle>();
  return {};
}

Result<void> KeeperSession::give() {
  auto* const giving = std::get_if<Giving>(&state_);
  if (giving != nullptr && !giving->sent) giving->sent = SMC_TRY(giving->sender.advance());
  return {};
}

Result<std::optional<KeeperSession::Event>> KeeperSession::receive_one() {
  std::array<std::byte, 64> bytes;
  auto received = receive_record(socket_.get(), bytes, closer_);
  if (!received && received.error().code == Errc::kWouldBlock) return std::optional<Event>();
  if (!received) return received.error();
  if (received->descriptors > received->fds.size())
    return refuse(Refusal::kMalformed,
                  Error{Errc::kMalformed, "more descriptors than a record has"});
  const KeeperRecord record = SMC_TRY(decode_record(std::span(bytes).first(received->size_bytes)));
  Event event = SMC_TRY(take(record, std::span(received->fds).first(received->descriptors)));
  return std::optional<Event>(std::move(event));
}

Result<KeeperSession::Event> KeeperSession::take(const KeeperRecord& record,
                                                 std::span<ForeignDescriptor> descriptors) {
  switch (record.kind) {
    case Kind::kTaken:
    case Kind::kRefused:
      return take_answer(record);
    case Kind::kOffer:
      SMC_TRY(promise(record));
      return Event();
    case Kind::kFetch:
    case Kind::kParcel:
    case Kind::kDescriptors:
      return take_part(record, descriptors);
    case Kind::kHello:
    case Kind::kPark:
    case Kind::kAccepted:
      break;
  }
  return Error{Errc::kMalformed, "a keeper's record from a proxy"};
}

Result<KeeperSession::Event> KeeperSession::take_answer(const KeeperRecord& record) {
  const auto* const giving = std::get_if<Giving>(&state_);
  if (giving == nullptr || !giving->sent) return Error{Errc::kMalformed, "an answer to no parcel"};
  state_.emplace<Idle>();
  return Event(Answered{record.kind == Kind::kTaken ? Refusal::kNone : record.refusal});
}

Refusal KeeperSession::room_for(const KeeperRecord& record) {
  if (record.count > terms_.limits.descriptors) return Refusal::kDescriptors;
  if (record.bytes > terms_.limits.bytes) return Refusal::kBytes;
  const auto* const promised = std::get_if<Promised>(&state_);
  if (promised != nullptr && record.count <= promised->descriptors) return Refusal::kNone;
  // One more for the description.
  const std::uint32_t all = record.count + 1;
  return !terms_.reserve || terms_.reserve(all) ? Refusal::kNone : Refusal::kShare;
}

Result<void> KeeperSession::promise(const KeeperRecord& record) {
  if (!std::holds_alternative<Idle>(state_))
    return refuse(Refusal::kBusy, Error{Errc::kMalformed, "an offer while a parcel is under way"});
  if (const Refusal why = room_for(record); why != Refusal::kNone)
    return refuse(why, Error{Errc::kExhausted, to_string(why)});
  state_.emplace<Promised>(record.count);
  KeeperRecord accepted;
  accepted.kind = Kind::kAccepted;
  accepted.count = record.count;
  return say(accepted);
}

Result<KeeperSession::Event> KeeperSession::take_part(const KeeperRecord& record,
                                                      std::span<ForeignDescriptor> descriptors) {
  if (std::holds_alternative<Giving>(state_))
    return refuse(Refusal::kBusy, Error{Errc::kMalformed, "a parcel while another is given"});
  if (!std::holds_alternative<Receiving>(state_)) {
    if (record.kind == Kind::kDescriptors)
      return refuse(Refusal::kMalformed, Error{Errc::kMalformed, "descriptors of no parcel"});
    if (const Refusal why = room_for(record); why != Refusal::kNone)
      return refuse(why, Error{Errc::kExhausted, to_string(why)});
    if (record.kind == Kind::kFetch) return begin_fetch(record);
    state_.emplace<Receiving>(terms_.limits);
  }
  std::optional<Parcel> whole;
  if (auto taken = std::get<Receiving>(state_).receiver.take(record, descriptors))
    whole = std::move(*taken);
  else
    return refuse(Refusal::kMalformed, taken.error());
  if (!whole) return Event();
  return complete(std::move(*whole));
}

Result<KeeperSession::Event> KeeperSession::begin_fetch(const KeeperRecord& record) {
  if (!terms_.process) return ask_to_send(record.count);
  state_.emplace<Fetching>(record.count, *terms_.process, record, closer_);
  return Event();
}

Result<KeeperSession::Event> KeeperSession::ask_to_send(std::uint32_t promised) {
  KeeperRecord record;
  record.kind = Kind::kRefused;
  record.refusal = Refusal::kNotFetched;
  SMC_TRY(say(record));
  state_.emplace<Promised>(promised);
  return Event();
}

Result<KeeperSession::Event> KeeperSession::fetch() {
  auto& fetching = std::get<Fetching>(state_);
  auto fetched = fetching.fetcher.advance();
  if (!fetched && fetched.error().code == Errc::kMalformed)
    return refuse(Refusal::kMalformed, fetched.error());
  if (!fetched) return ask_to_send(fetching.descriptors);
  if (!*fetched) return Event();
  return complete(std::move(**fetched));
}

// Without an answer the proxy continues with its connections itself. So the keeper keeps nothing
// then.
Result<KeeperSession::Event> KeeperSession::complete(Parcel parcel) {
  state_.emplace<Idle>();
  KeeperRecord taken;
  taken.kind = Kind::kTaken;
  taken.count = static_cast<std::uint32_t>(parcel.descriptors.size());
  SMC_TRY(say(taken));
  return Event(Received{std::make_unique<Parcel>(std::move(parcel))});
}

Error KeeperSession::refuse(Refusal refusal, const Error& why) {
  KeeperRecord record;
  record.kind = Kind::kRefused;
  record.refusal = refusal;
  (void)say(record);
  return why;
}

}  // namespace fairlead::parking
