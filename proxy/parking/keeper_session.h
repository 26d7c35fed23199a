// The keeper's end of a connection to a proxy: gives what it holds to the proxy, and takes what the
// proxy parks. Neither blocks nor waits; the owner polls the socket, and gives up at its own limits
// of time.
//
// One thread, the owner's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/descriptor_closer.h"
#include "base/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "parking/keeper_record.h"
#include "parking/living_connections.h"
#include "parking/parcel.h"

namespace fairlead::parking {

class KeeperSession {
 public:
  enum class State : std::uint8_t {
    kIdle,       // the proxy has nothing to say yet
    kGiving,     // the parcel that was held, until the proxy has taken it
    kReceiving,  // a parcel of the proxy's
    kReceived,   // it is here: take_parcel()
  };

  // `socket` is connected to a proxy. `held`: what it is given, or null; it is kept until the proxy
  // says that it has it. `limits` are told to the proxy.
  KeeperSession(FileDescriptor socket, const ParcelLimits& limits, DescriptorCloser& closer,
                std::unique_ptr<Parcel> held);

  int descriptor() const { return socket_.get(); }
  State state() const { return state_; }
  // For a parcel that has not begun; the proxy is not told. `living`: descriptors of a living
  // proxy.
  void set_limits(const ParcelLimits& limits, std::uint32_t living);
  bool wants_to_write() const { return sender_.has_value() || !greeted_; }
  // Does what can be done now. An error, kPeerGone among them, ends the session; what is held is
  // still there.
  Result<void> advance();
  // A parcel that begins before waits until then; nothing else is received behind it.
  void rest_until(TimePoint when) { rests_until_ = when; }
  std::optional<TimePoint> rests() const {
    return early_ ? std::optional(rests_until_) : std::nullopt;
  }
  // Asks the proxy to park.
  Result<void> ask_to_park();
  // What the proxy has said of the parcel that it was given, once: kNone if it has taken it. It is
  // not held any more then. It may be said in the same advance() in which the parcel was given.
  std::optional<KeeperRecord::Refusal> take_answer() {
    return std::exchange(answer_, std::nullopt);
  }

  // What is held after a session that has ended, or what was received. Null if there is nothing.
  std::unique_ptr<Parcel> take_parcel() { return std::move(parcel_); }

  // Of the living proxy.
  std::uint32_t living_descriptors() const { return living_ ? living_->descriptors() : 0; }
  // After a session that has ended because the proxy has, and without a parcel: what is left of its
  // connections. Nothing if it has never said what they are.
  std::optional<LivingConnections::Remains> take_remains(TimePoint died, std::uint64_t bytes_max);

 private:
  Result<void> greet();
  Result<void> give();
  Result<void> receive();
  Result<bool> receive_one();  // false: nothing is there
  Result<void> take(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<void> take_living(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<void> refuse(KeeperRecord::Refusal refusal, const Error& why);
  Result<void> say(const KeeperRecord& record);

  ForeignDescriptor socket_;
  ParcelLimits limits_;
  DescriptorCloser& closer_;
  State state_ = State::kIdle;
  bool greeted_ = false;
  std::unique_ptr<Parcel> parcel_;  // held, or received
  std::optional<ParcelSender> sender_;
  ParcelReceiver receiver_;
  TimePoint rests_until_{};
  struct Early {
    KeeperRecord record;
    ForeignDescriptor description;
  };
  std::optional<Early> early_;  // the beginning of a parcel
  std::optional<LivingConnections> living_;
  std::uint32_t living_max_ = 0;
  std::optional<KeeperRecord::Refusal> answer_;  // that take_answer() has not told yet
};

}  // namespace fairlead::parking
