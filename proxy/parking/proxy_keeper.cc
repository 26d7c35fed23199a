#include "parking/proxy_keeper.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/linux/event_descriptor.h"
#include "base/linux/peer_credentials.h"
#include "base/linux/record_socket.h"
#include "base/linux/socket_file.h"
#include "base/linux/unix_address.h"
#include "base/linux/wait.h"
#include "base/log.h"
#include "parking/parcel_fetch.h"

namespace fairlead::parking {
namespace {

using Kind = KeeperRecord::Kind;
using Refusal = KeeperRecord::Refusal;

constexpr const char* kLogger = "keeper";

TimePoint now() { return std::chrono::steady_clock::now(); }

Result<void> unless_refused(const Result<Refusal>& answer) {
  if (!answer) return answer.error();
  if (*answer == Refusal::kNone) return {};
  return Error{Errc::kExhausted, to_string(*answer)};
}

}  // namespace

Result<std::unique_ptr<ProxyKeeper>> ProxyKeeper::listen(const std::string& name) {
  const auto address = UnixAddress::parse(name);
  if (!address) return Error{Errc::kMalformed, "hand_over.socket: longer than a socket's name"};
  if (!address->is_abstract()) remove_stale_socket(name, SOCK_SEQPACKET);
  UnixListener listener =
      SMC_TRY(UnixListener::open(*address, {.mode = 0600, .what = "bind to hand_over.socket"}));
  return std::unique_ptr<ProxyKeeper>(new ProxyKeeper(std::move(listener)));
}

void ProxyKeeper::accept() {
  auto connection = listener_.accept();
  if (!connection) return;
  if (!is_peer_root_or_ours(connection->get())) {
    // What a stranger has sent there could block this close.
    const ForeignDescriptor foreign(connection->release(), closer_);
    return;
  }
  // The latest one counts: the keeper was replaced.
  forget_keeper();
  keeper_ = connection->release();
  keep_few_in_flight(keeper_.get());
}

void ProxyKeeper::forget_keeper() {
  keeper_.reset();
  limits_.reset();
  hello_ = {};
}

Result<ProxyKeeper::Received> ProxyKeeper::read() {
  std::array<std::byte, 64> bytes;
  ReceivedRecord record = SMC_TRY(receive_record(keeper_.get(), bytes, closer_));
  Received received;
  received.record = SMC_TRY(decode_record(std::span(bytes).first(record.size_bytes)));
  if (record.descriptors > record.fds.size())
    return Error{Errc::kMalformed, "more descriptors than a record has"};
  received.descriptors = record.descriptors;
  received.fds = std::move(record.fds);
  if (received.record.kind == Kind::kHello) {
    limits_ = ParcelLimits{received.record.count, received.record.bytes};
    hello_ = received.record;
  }
  return received;
}

Result<ProxyKeeper::Received> ProxyKeeper::read_until(TimePoint deadline) {
  for (;;) {
    auto received = read();
    if (received || received.error().code != Errc::kWouldBlock) return received;
    const int wait = milliseconds_until(deadline);
    if (wait == 0) return Error{Errc::kTimedOut, "the keeper says nothing"};
    pollfd readable{keeper_.get(), POLLIN, 0};
    (void)wait_for_events({&readable, 1}, wait);
  }
}

// A keeper that was replaced meanwhile counts as none.
Result<std::optional<KeeperRecord>> ProxyKeeper::await_hello(TimePoint deadline) {
  for (;;) {
    while (!keeper_) {
      const TimePoint until = earliest(listener_.deaf_until(), deadline).value();
      pollfd waiting{listener_.deaf_until() ? -1 : listener_.descriptor(), POLLIN, 0};
      if (milliseconds_until(deadline) == 0) return std::optional<KeeperRecord>();
      if (wait_for_events({&waiting, 1}, milliseconds_until(until)) > 0) accept();
    }
    auto hello = read_until(now() + kRecordWait);
    if (hello && hello->record.kind == Kind::kHello) return std::optional(hello->record);
    if (hello) return Error{Errc::kMalformed, "another record than the keeper's first"};
    if (hello.error().code != Errc::kPeerGone) return hello.error();
    forget_keeper();
  }
}

Result<std::optional<Parcel>> ProxyKeeper::receive(TimePoint deadline) {
  const std::optional<KeeperRecord> hello = SMC_TRY(await_hello(deadline));
  if (!hello || !hello->holds) return std::optional<Parcel>();
  ParcelReceiver receiver(kTakenBackMax);
  for (;;) {
    Received received = SMC_TRY(read_until(now() + kRecordWait));
    std::optional<Parcel> whole = SMC_TRY(
        receiver.take(received.record, std::span(received.fds).first(received.descriptors)));
    if (whole) return whole;
  }
}

void ProxyKeeper::answer(Refusal refusal, std::size_t descriptors) {
  KeeperRecord record;
  record.kind = refusal == Refusal::kNone ? Kind::kTaken : Kind::kRefused;
  record.refusal = refusal;
  record.count = static_cast<std::uint32_t>(descriptors);
  if (!send_record(keeper_.get(), encode(record), {})) forget_keeper();
}

Result<void> ProxyKeeper::start(std::function<void()> park_wanted) {
  park_wanted_ = std::move(park_wanted);
  return thread_.start([this] { run(); });
}

void ProxyKeeper::run() {
  for (;;) {
    const Deadline deaf = listener_.deaf_until();
    std::array<pollfd, 2> waiting = {pollfd{deaf ? -1 : listener_.descriptor(), POLLIN, 0},
                                     pollfd{keeper_.get(), POLLIN, 0}};
    if (!thread_.wait(waiting, deaf.value_or(TimePoint::max()))) return;
    if (waiting[1].revents != 0) {
      const auto received = read();
      const bool known = received && (received->record.kind == Kind::kHello ||
                                      received->record.kind == Kind::kPark);
      if (known && received->record.kind == Kind::kPark) park_wanted_();
      // A keeper that holds something for us comes too late: this would mix with our own
      // connections.
      if (known && received->record.holds) {
        answer(Refusal::kBusy, 0);
        LogEvent(LogLevel::kWarn, kLogger, "refused")
            .field("what", "parked connections that came after the start");
      } else if (!known && (received || received.error().code != Errc::kWouldBlock)) {
        forget_keeper();
      }
    }
    if (waiting[0].revents != 0) accept();
  }
}

Result<void> ProxyKeeper::await_room(const Error& why, TimePoint deadline) {
  const int wait = milliseconds_until(deadline);
  if (wait == 0) return Error{Errc::kTimedOut, "the keeper does not read", why.system};
  if (why.system == ETOOMANYREFS) {
    // The socket is writable nevertheless, so only a pause helps.
    (void)wait_for_events({}, std::min(wait, static_cast<int>(kInFlightRetry.count())));
    return {};
  }
  pollfd writable{keeper_.get(), POLLOUT, 0};
  (void)wait_for_events({&writable, 1}, wait);
  return {};
}

Result<void> ProxyKeeper::send(const KeeperRecord& record, std::span<const int> fds,
                               TimePoint deadline) {
  for (;;) {
    const Result<void> sent = send_record(keeper_.get(), encode(record), fds);
    if (sent || sent.error().code != Errc::kWouldBlock) return sent;
    SMC_TRY(await_room(sent.error(), deadline));
  }
}

Result<Refusal> ProxyKeeper::await_answer(Kind wanted, TimePoint deadline) {
  for (;;) {
    const Received received = SMC_TRY(read_until(deadline));
    if (received.record.kind == wanted) return Refusal::kNone;
    if (received.record.kind == Kind::kRefused) return received.record.refusal;
  }
}

Result<void> ProxyKeeper::offer(std::uint32_t descriptors, TimePoint deadline) {
  if (!keeper_) return Error{Errc::kPeerGone, "no keeper"};
  if (!hello_.answers_offers) return {};
  KeeperRecord record;
  record.kind = Kind::kOffer;
  record.count = descriptors;
  // Any descriptor shows whether the kernel lets us send one. A keeper that fetches needs none.
  EventDescriptor any;
  if (!hello_.fetches) any = SMC_TRY(EventDescriptor::create());
  const int number = any.get();
  SMC_TRY(send(record, {&number, hello_.fetches ? 0u : 1u}, deadline));
  return unless_refused(await_answer(Kind::kAccepted, deadline));
}

Result<void> ProxyKeeper::park(const Parcel& parcel, TimePoint deadline) {
  if (!keeper_) return Error{Errc::kPeerGone, "no keeper"};
  // From here on a keeper that comes looks for the next proxy.
  listener_.close();
  const Result<void> given = unless_refused(give(parcel, deadline));
  return given || end_doubt() ? Result<void>() : given;
}

// Its answer fails after this, and it drops the parcel.
bool ProxyKeeper::end_doubt() {
  (void)::shutdown(keeper_.get(), SHUT_RD);
  for (;;) {
    const auto received = read();
    if (!received) return false;
    if (received->record.kind == Kind::kTaken) return true;
  }
}

Result<Refusal> ProxyKeeper::give(const Parcel& parcel, TimePoint deadline) {
  const Refusal fetched =
      hello_.fetches ? SMC_TRY(have_fetched(parcel, deadline)) : Refusal::kNotFetched;
  return fetched == Refusal::kNotFetched ? send_parcel(parcel, deadline) : fetched;
}

Result<Refusal> ProxyKeeper::have_fetched(const Parcel& parcel, TimePoint deadline) {
  const FileDescriptor table = SMC_TRY(make_fetch_table(parcel));
  KeeperRecord record;
  record.kind = Kind::kFetch;
  record.count = static_cast<std::uint32_t>(parcel.descriptors.size());
  record.bytes = parcel.bytes;
  record.description = static_cast<std::uint32_t>(parcel.description.get());
  record.table = static_cast<std::uint32_t>(table.get());
  SMC_TRY(send(record, {}, deadline));
  return await_answer(Kind::kTaken, deadline);
}

Result<Refusal> ProxyKeeper::send_parcel(const Parcel& parcel, TimePoint deadline) {
  ParcelSender sender(keeper_.get(), parcel);
  while (!SMC_TRY(sender.advance())) SMC_TRY(await_room(sender.obstacle(), deadline));
  return await_answer(Kind::kTaken, deadline);
}

void ProxyKeeper::leave() {
  forget_keeper();
  listener_.close();
}

}  // namespace fairlead::parking
