// The reports about one session: counters, the logs of decisions and fallbacks, and its row in
// displays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/client_address.h"
#include "base/fallback.h"
#include "base/snapshot.h"
#include "relay/connection/answer_times.h"
#include "relay/connection/session_services.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

struct ParkedConnection;

class SessionReport {
 public:
  SessionReport(SessionServices& services, std::uint64_t session, Direction direction,
                TimePoint now);

  std::string id() const { return session_id(session_); }

  // The set-up leads to a decision. One begins with the session, another one when the connection
  // has earned SMC-R.
  void setup_began(const char* phase, TimePoint now);
  void setup_ended() { setup_.reset(); }
  bool setting_up() const { return setup_ != nullptr; }
  TimePoint setup_begin() const { return setup_->began; }
  // `step` and `phase` are literals.
  void note(const char* step);
  void set_phase(const char* phase);
  const char* phase() const { return setup_ ? setup_->phase : "frames"; }

  void set_client_address(ClientAddress shown);

  // The connection uses this transport from now on, or no longer.
  void carried(Transport transport);
  void carried_no_longer(Transport transport);
  // Decisions. `peer` is that of the TCP connection, as this side sees it.
  void smc_chosen(const SocketAddress& peer, const std::string& group, TimePoint now);
  void tcp_chosen(const UseTcp& why, const event::Stream& net, const SocketAddress& peer,
                  TimePoint now);
  // How a connection ends that has become neither SMC-R nor permanent TCP.
  enum class ShortEnd : std::uint8_t {
    kBeforeEarned,
    kInHandshake,
    kRefusedByPeer,  // the peer has reset it without sending anything
  };
  void short_ended(const SocketAddress& peer, ShortEnd how, TimePoint now);

  // Sets the bytes that the relay of this transport has passed on in total.
  void count(Transport transport, std::uint64_t tx, std::uint64_t rx, TimePoint now);
  // The connection ends, and does not continue in another process.
  void ended(TimePoint now);
  // The frames have ended after `tx` bytes; the next relay counts the rest.
  void frames_ended(std::uint64_t tx) { framed_tx_ = tx; }
  std::uint64_t framed_tx() const { return framed_tx_; }
  std::uint64_t bytes() const { return tx_ + rx_; }

  // For another process that continues the connection, and the counterpart there.
  void park(ParkedConnection& into, TimePoint now) const;
  void resume(const ParkedConnection& parked);

  // The peer has broken the rules of the frames, or of the handshake after them.
  void frames_refused(const SocketAddress& peer, const char* detail);
  void peer_vanished(const SocketAddress& peer, const std::string& what);

  // The row without streams and link group.
  ConnectionRow row(Transport transport, TimePoint now) const;

 private:
  struct SetUp {
    TimePoint began;
    std::vector<const char*> steps;
    const char* phase = "";
  };
  void record(Decision decision, const SocketAddress& peer, TimePoint since, TimePoint now);

  SessionServices& services_;
  const std::uint64_t session_;
  const Direction direction_;
  const TimePoint began_;
  std::unique_ptr<SetUp> setup_;
  std::optional<FallbackReason> reason_;
  std::optional<ClientAddress> client_address_;  // inbound: set once the application was dialled
  std::uint64_t tx_ = 0;
  std::uint64_t rx_ = 0;
  std::uint64_t framed_tx_ = 0;  // part of tx_
  AnswerTimes answers_;
};

}  // namespace fairlead::relay
