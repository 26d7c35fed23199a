// hand-over: replaces a proxy that runs outside of Kubernetes, without an end of its connections.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "base/linux/descriptor_closer.h"
#include "base/linux/unix_socket.h"
#include "base/linux/wait.h"
#include "base/time.h"
#include "ctl/commands.h"
#include "ctl/reports.h"
#include "parking/keeper_record.h"
#include "parking/keeper_session.h"

namespace fairlead::ctl {
namespace {

using parking::KeeperSession;
using parking::Parcel;

constexpr parking::ParcelLimits kLimits = {.descriptors = 1'000'000,
                                           .bytes = std::uint64_t{256} * 1024 * 1024};
// Between two looks for the next proxy.
constexpr int kLookMilliseconds = 2;

parking::KeeperTerms terms() { return {kLimits}; }

TimePoint now() { return std::chrono::steady_clock::now(); }

Result<FileDescriptor> connect_to_proxy(const std::string& name) {
  const auto address = UnixAddress::parse(name);
  if (!address) return Error{Errc::kMalformed, "the name of the socket is too long"};
  return connect_unix_socket(*address, SOCK_SEQPACKET, "connect to the proxy's keeper socket");
}

class HandOverCommand {
 public:
  HandOverCommand(std::string socket, Duration wait)
      : socket_(std::move(socket)), deadline_(now() + wait) {}

  Result<void> take_from_running() {
    KeeperSession session(SMC_TRY(connect_to_proxy(socket_)), terms(), closer_, nullptr);
    SMC_TRY(session.advance());
    SMC_TRY(session.ask_to_park());
    KeeperSession::Event event = SMC_TRY(await(session));
    parked_at_ = now();
    auto* const received = std::get_if<KeeperSession::Received>(&event);
    if (received == nullptr) return Error{Errc::kMalformed, "an answer to no parcel"};
    parcel_ = std::move(received->parcel);
    return {};
  }

  // A proxy that goes before it has taken the parcel may be the old one, or one that failed.
  Result<void> give_to_next() {
    for (;;) {
      const Result<void> given = try_to_give();
      if (given) taken_at_ = now();
      if (given || parcel_ == nullptr) return given;
      if (milliseconds_until(deadline_) == 0)
        return Error{Errc::kTimedOut, "no proxy has come to take the connections back"};
      (void)wait_for_events({}, kLookMilliseconds);
    }
  }

  std::size_t descriptors() const { return descriptors_; }
  std::uint64_t gap_milliseconds() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(taken_at_ - parked_at_).count());
  }

 private:
  Result<void> try_to_give() {
    Result<FileDescriptor> next = connect_to_proxy(socket_);
    if (!next) return next.error();
    descriptors_ = parcel_->descriptors.size();
    KeeperSession session(std::move(*next), terms(), closer_, std::move(parcel_));
    auto event = await(session);
    if (!event) parcel_ = session.take_held();
    if (!event) return event.error();
    const auto* const answer = std::get_if<KeeperSession::Answered>(&*event);
    if (answer == nullptr) return Error{Errc::kMalformed, "a parcel in place of an answer"};
    if (answer->refusal != parking::KeeperRecord::Refusal::kNone)
      return Error{Errc::kMalformed, parking::to_string(answer->refusal)};
    return {};
  }

  // The next event for us.
  Result<KeeperSession::Event> await(KeeperSession& session) {
    for (;;) {
      KeeperSession::Event event = SMC_TRY(session.advance());
      if (!std::holds_alternative<std::monostate>(event)) return event;
      if (session.has_more()) continue;
      const int wait = milliseconds_until(deadline_);
      if (wait == 0) return Error{Errc::kTimedOut, "the proxy does not answer"};
      const short events = session.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
      pollfd ready{session.descriptor(), events, 0};
      (void)wait_for_events({&ready, 1}, wait);
    }
  }

  std::string socket_;
  TimePoint deadline_;
  DescriptorCloser closer_;
  std::unique_ptr<Parcel> parcel_;
  std::size_t descriptors_ = 0;
  TimePoint parked_at_{}, taken_at_{};
};

void hand_over(Console& console, const std::string& socket, unsigned seconds) {
  HandOverCommand command(socket, std::chrono::seconds(seconds));
  const auto fail = [&console](const std::string& what, const Error& why) {
    console.complain(what + ": " + to_string(why));
    console.exit = Exit::kFail;
  };
  if (const Result<void> taken = command.take_from_running(); !taken)
    return fail("the proxy has not parked its connections", taken.error());
  console.note("the proxy has parked its connections; waiting for the next one");
  if (const Result<void> given = command.give_to_next(); !given)
    return fail("the connections are lost", given.error());
  if (console.wants_json()) {
    const Json answer = {{"descriptors", command.descriptors()},
                         {"gap_ms", command.gap_milliseconds()}};
    return console.print_json(answer.dump() + '\n');
  }
  console.print(taken_back_text(command.descriptors(), command.gap_milliseconds()));
}

}  // namespace

void add_hand_over_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand(
      "hand-over",
      "Replaces a proxy while its connections go on: keeps them until the next one starts");
  command->add_option("--keeper-socket", "hand_over.socket of the proxy")
      ->default_val(parking::kKeeperSocket);
  command->add_option("--wait", "seconds until the next proxy must have taken the connections")
      ->default_val(30)
      ->check(CLI::Range(1, 3600));
  command->footer(
      "Not for pods, where fairlead-node does this. Something else starts the next proxy, such as\n"
      "Restart=always of a systemd unit.\n\n"
      "Examples:\n  fairleadctl hand-over\n  fairleadctl hand-over --keeper-socket "
      "/run/fairlead/keeper.sock");
  command->callback([&console, command] {
    hand_over(console, (*command)["--keeper-socket"]->as<std::string>(),
              (*command)["--wait"]->as<unsigned>());
  });
}

}  // namespace fairlead::ctl
