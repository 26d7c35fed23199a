// The keeper's end of a connection to a proxy: gives what it holds to the proxy, and takes what the
// proxy parks. It does not wait; the owner polls the socket, and gives up at its own limits of
// time.
//
// One thread, the owner's. Calls on descriptors of the proxy may block there (parcel_fetch.h, and a
// closer that closes there).
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

// What a keeper takes.
struct KeeperTerms {
  ParcelLimits limits;  // the proxy is told
  // Reserves room for so many descriptors in all, those of before included. False: a limit that the
  // pods share. Empty: there is none.
  std::function<bool(std::uint32_t)> reserve{};
  // What the descriptors can be fetched from; nothing: they have to be sent.
  std::optional<PeerProcess> process{};
};

class KeeperSession {
 public:
  // What one advance() has brought for the owner.
  struct Answered {
    KeeperRecord::Refusal refusal;  // kNone: the proxy has taken the parcel that was held
  };
  struct Received {
    std::unique_ptr<Parcel> parcel;  // never null. The session is over.
  };
  using Event = std::variant<std::monostate, Answered, Received>;

  // `held`: what the proxy is given, or null. It is kept until the proxy has answered.
  KeeperSession(FileDescriptor socket, KeeperTerms terms, DescriptorCloser& closer,
                std::unique_ptr<Parcel> held);
  KeeperSession(KeeperSession&&) = delete;  // its parts refer to each other

  int descriptor() const { return socket_.get(); }
  bool wants_to_write() const;
  // There is more to do, without an event of the socket.
  bool has_more() const { return std::holds_alternative<Fetching>(state_); }
  // What the proxy and the keeper wait for; each begins a limit of time of the owner's.
  enum class Stage : std::uint8_t { kIdle, kGiving, kPromised, kReceiving };
  Stage stage() const;

  // Does what can be done now, up to the first event. An error, kPeerGone among them, ends the
  // session; what is held is still there.
  Result<Event> advance();
  // Asks the proxy to park.
  Result<void> ask_to_park();

  // What is still held after a session that has ended; null if there is nothing.
  std::unique_ptr<Parcel> take_held();

 private:
  struct Greeting {  // hello has not been sent
    explicit Greeting(std::unique_ptr<Parcel> parcel) : held(std::move(parcel)) {}
    std::unique_ptr<Parcel> held;
  };
  struct Idle {};  // the proxy has nothing to say yet
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
    std::uint32_t descriptors;  // that are promised
    ParcelFetcher fetcher;
  };

  Result<void> greet();
  Result<void> give();
  Result<Event> fetch();
  // Nothing: no record is there.
  Result<std::optional<Event>> receive_one();
  Result<Event> take(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<Event> take_answer(const KeeperRecord& record);
  Result<void> promise(const KeeperRecord& record);
  Result<Event> take_part(const KeeperRecord& record, std::span<ForeignDescriptor> descriptors);
  Result<Event> begin_fetch(const KeeperRecord& record);
  // The proxy has to send what it has been promised room for.
  Result<Event> ask_to_send(std::uint32_t promised);
  Result<Event> complete(Parcel parcel);
  // Room for the parcel, or the reason why there is none.
  KeeperRecord::Refusal room_for(const KeeperRecord& record);
  Error refuse(KeeperRecord::Refusal refusal, const Error& why);
  Result<void> say(const KeeperRecord& record);

  ForeignDescriptor socket_;
  KeeperTerms terms_;
  DescriptorCloser& closer_;
  std::variant<Greeting, Idle, Giving, Promised, Receiving, Fetching> state_;
};

}  // namespace fairlead::parking
