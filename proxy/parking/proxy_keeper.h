// The proxy's end of the connection to a keeper: listens for the keeper of this pod, takes back
// what it holds, and parks there. Between start() and stop() a thread handles keepers that come and
// go.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/linux/record_socket.h"
#include "base/linux/service_thread.h"
#include "base/linux/unix_listener.h"
#include "base/result.h"
#include "base/time.h"
#include "parking/keeper_record.h"
#include "parking/parcel.h"

namespace fairlead::parking {

// What a proxy takes back at most.
inline constexpr ParcelLimits kTakenBackMax = {.descriptors = 1'000'000,
                                               .bytes = std::uint64_t{256} * 1024 * 1024};
// How long the kernel and the keeper may take for one record.
inline constexpr Duration kRecordWait = std::chrono::seconds(2);
// How long a keeper may take to answer an offer. The connections go on meanwhile.
inline constexpr Duration kOfferWait = std::chrono::seconds(2);
// After a descriptor that the kernel did not take, because our user has too many in flight. No
// event tells when there is room.
inline constexpr std::chrono::milliseconds kInFlightRetry{10};

class ProxyKeeper {
 public:
  // Listens as `name`, an absolute path or "@name". Nobody but root and our own user is a keeper.
  static Result<std::unique_ptr<ProxyKeeper>> listen(const std::string& name);

  // Before start(): waits for a keeper, and for what it holds. Nothing when none has come until
  // `deadline`, or it holds nothing. An error: what it sent is not taken.
  Result<std::optional<Parcel>> receive(TimePoint deadline);
  // After receive(): what has come of the parcel.
  void answer(KeeperRecord::Refusal refusal, std::size_t descriptors);

  // `park_wanted` is called on the thread when the keeper asks for it. Errors: of
  // ServiceThread::start().
  Result<void> start(std::function<void()> park_wanted);
  void stop() { thread_.stop(); }

  // After stop(): what the keeper takes; nothing without a keeper.
  std::optional<ParcelLimits> limits() const { return limits_; }
  // Before anything is parked: the keeper has reserved room, and a descriptor can reach it. An
  // older keeper is not asked. Errors: kExhausted when it refuses, kTimedOut, kPeerGone, others.
  Result<void> offer(std::uint32_t descriptors, TimePoint deadline);
  // The keeper has it, or an error says why not; kRefused is kExhausted. After an error the keeper
  // may have copies of descriptors, until it notices that we left.
  Result<void> park(const Parcel& parcel, TimePoint deadline);
  // Ends the connection to the keeper, and listens no more.
  void leave();

 private:
  explicit ProxyKeeper(UnixListener listener) : listener_(std::move(listener)) {}
  void run();
  void accept();
  // Nothing at the deadline.
  Result<std::optional<KeeperRecord>> await_hello(TimePoint deadline);
  void forget_keeper();
  // Waits until a record can be sent. An error at the deadline.
  Result<void> send(const KeeperRecord& record, std::span<const int> fds, TimePoint deadline);
  Result<void> await_room(const Error& why, TimePoint deadline);
  // The keeper's answer: kNone for `wanted`.
  Result<KeeperRecord::Refusal> await_answer(KeeperRecord::Kind wanted, TimePoint deadline);
  Result<KeeperRecord::Refusal> have_fetched(const Parcel& parcel, TimePoint deadline);
  Result<KeeperRecord::Refusal> send_parcel(const Parcel& parcel, TimePoint deadline);
  Result<KeeperRecord::Refusal> give(const Parcel& parcel, TimePoint deadline);
  // From now on the keeper cannot say that it has taken the parcel. True: it has said so before.
  bool end_doubt();
  struct Received {
    KeeperRecord record;
    std::array<ForeignDescriptor, kRecordDescriptorsMax> fds;
    std::size_t descriptors = 0;
  };
  // Errors: kWouldBlock, kPeerGone, kMalformed.
  Result<Received> read();
  Result<Received> read_until(TimePoint deadline);

  UnixListener listener_;
  DescriptorCloser closer_;
  FileDescriptor keeper_;
  std::optional<ParcelLimits> limits_;  // of this keeper, once it has said them
  std::function<void()> park_wanted_;
  KeeperRecord hello_;  // of this keeper
  ServiceThread thread_;
};

}  // namespace fairlead::parking
