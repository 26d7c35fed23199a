// The keeper's end of a connection to a proxy: gives the proxy what the keeper holds, and takes
// what the proxy parks. It does not wait: the owner polls the socket, and sets its own time limits.
//
// Runs on the owner's thread. Calls on descriptors of the proxy may block there (parcel_fetch.h, or
// a closer that closes on this thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "parking/keeper_record.h"
#include "parking/parcel.h"
#include "parking/parcel_fetch.h"

namespace fairlead::parking {

// The limits of a keeper.
struct KeeperTerms {
  ParcelLimits limits;  // sent to the proxy
  // Reserves room for this many descriptors in total, including earlier reservations. False: the
  // limit that the pods share is reached. Empty: there is no such limit.
  std::function<bool(std::uint32_t)> reserve{};
  // The process from which descriptors can be fetched; empty: they must be sent.
  std::optional<PeerProcess> process{};
};

class KeeperSession {
 public:
  // Results of advance() for the owner.
  struct Answered {
    KeeperRecord::Refusal refusal;  // kNone: the proxy has taken the held parcel
  };
  struct Received {
    std::unique_ptr<Parcel> parcel;  // never null; the session is over
  };
  using Event = std::variant<std::monostate, Answered, Received>;

  // `held`: the parcel for the proxy, or null. It is kept until the proxy has answered.
  KeeperSession(FileDescriptor socket, KeeperTerms terms, DescriptorCloser& closer,
                std::unique_ptr<Parcel> held);
  KeeperSession(KeeperSession&&) = delete;  // its parts refer to each other

  int descriptor() const { return socket_.get(); }
  bool wants_to_write() const;
  // True if there is more to do without an event of the socket.
  bool has_more() const { return std::holds_alternative<Fetching>(state_); }
  // What the session waits for. Each new stage starts one of the owner's time limits.
  enum class Stage : std::uint8_t { kIdle, kGiving, kPromised, kReceiving };
  Stage stage() const;

  // Does what can be done now, up to the first event. An error, such as kPeerGone, ends the
  // session; a held parcel is kept.
  Result<Event> advance();
  // Asks the proxy to park.
  Result<void> ask_to_park();

  // The held parcel after the session has ended, or null.
  std::unique_ptr<Parcel> take_held();

 private:
  struct Greeting {  // hello is not sent yet
    explicit Greeting(std::unique_ptr<Parcel> parcel) : held(std::move(parcel)) {}
    std::unique_ptr<Parcel> held;
  };
  struct Idle {};  // nothing to do until the proxy sends something
  struct Giving {
    explicit Giving(int socket, std::unique_ptr<Parcel> held)
        : parcel(std::move(held)), sender(socket, *parcel) {}
    std::unique_ptr<Parcel> parcel;  // never null
    ParcelSender sender;
    bool sent = false;
  };
  struct Promised {
    explicit Promised(std::uint32_t count) : descriptors(count) {}
    std::uint32_t descriptors;
  };
  struct Receiving {
    explicit Receiving(const ParcelLimits& limits) : receiver(limits) {}
    ParcelReceiver receiver;
  };
  struct Fetching {
    Fetching(std::uint32_t promised, const PeerProcess& process, const KeeperRecord& record,
             DescriptorCloser& closer)
        : descriptors(promised), fetcher(process, record, closer) {}
    std::uint32_t descriptors;  // promised to the proxy
    ParcelFetcher fetcher;
  };

  Result<void> greet();
  Result<void> give();
  Result<Event> fetch();
  // Empty if there is no record.
  Result<std::optional<Event>> receive_one();
  Result<Event> take(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<Event> take_answer(const KeeperRecord& record);
  Result<void> promise(const KeeperRecord& record);
  Result<Event> take_part(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<Event> begin_fetch(const KeeperRecord& record);
  // Asks the proxy to send the descriptors for which it has been promised room.
  Result<Event> ask_to_send(std::uint32_t promised);
  Result<Event> complete(Parcel parcel);
  // kNone if there is room for the parcel, else the reason.
  KeeperRecord::Refusal room_for(const KeeperRecord& record);
  Error refuse(KeeperRecord::Refusal refusal, const Error& why);
  Result<void> say(const KeeperRecord& record);

  ForeignDescriptor socket_;
  KeeperTerms terms_;
  DescriptorCloser& closer_;
  std::variant<Greeting, Idle, Giving, Promised, Receiving, Fetching> state_;
};

}  // namespace fairlead::parking
