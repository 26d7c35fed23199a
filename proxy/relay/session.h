// One proxied connection, from the accepted socket to the end: two streams, the negotiation that
// decides which way the bytes go, and then one of the two relays.
//
//   app   the stream to the application in our pod
//   net   the stream to the other side; while the bytes go over SMC-R it lies idle as the liveness
//         and close companion
//
// Between two proxies that both announce it, a connection begins in frames, and makes its handshake
// when it has earned it.
//
// All fallback decisions are made in the files of this class: session_outbound.cc (client of the
// handshake), session_inbound.cc (server), and session.cc, session_handshake.cc and
// session_join.cc (both; the last joins a link group).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fallback.h"
#include "base/snapshot.h"
#include "event/stream.h"
#include "event/timer_queue.h"
#include "relay/connection_owner.h"
#include "relay/device_slot.h"
#include "relay/framed_relay.h"
#include "relay/group.h"
#include "relay/network.h"
#include "relay/peer_silence.h"
#include "relay/session_services.h"
#include "relay/smc_relay.h"
#include "relay/socket_memory.h"
#include "relay/tcp_relay.h"
#include "smc/handshake.h"
#include "smc/negotiate.h"

namespace fairlead::relay {

struct PeerKey;

// Both applications have ended, all bytes were read, but the peer does not confirm the end.
inline constexpr Duration kCloseAnswerWait = std::chrono::seconds(60);
// The peer has ended the TCP connection under an SMC-R connection, and its link answers: how long
// it may take to say the end of the SMC-R connection too. Longer than a test of the link and than a
// failover validation.
inline constexpr Duration kCompanionEndWait = std::chrono::seconds(10);
// After its negotiation a dialled connection is probed for a silent host. Shorter ones are not.
inline constexpr Duration kProbesBegin = std::chrono::seconds(1);
inline constexpr std::size_t kHandshakeReadBytes = 4096;
// How long a peer that is only assumed to speak SMC may be silent before it is taken for plain TCP.
inline constexpr Duration kSniffWait = std::chrono::seconds(2);
// How soon a server looks again for the memory of the client, at first contact. Later looks are
// farther apart.
inline constexpr Duration kClientMemoryInterval = std::chrono::milliseconds(1);

// Where the other end believes that an accepted connection leads.
enum class Arrival : std::uint8_t {
  kAtListener,  // to the address where it was accepted
  kRedirected,  // to its destination
};

class Session final : public event::StreamHandler, public ConnectionOwner {
 public:
  enum class Phase : std::uint8_t {
    kDialing,    // connecting to the destination (outbound) or the application (inbound)
    kFrames,     // in frames; a client may stand in line for its handshake meanwhile
    kHandshake,  // CLC
    kQueued,     // another connection makes the first contact with this peer, or the peer is being
                 // told where our memory is
    kSmc,
    kTcp,
    kDead,
  };

  Session(SessionServices& services, std::uint64_t number, Direction direction,
          SocketAddress destination, std::unique_ptr<event::Stream> accepted, SocketMemory memory,
          TimePoint now);
  ~Session() override;

  // Decides what to try, and begins.
  void start(Arrival arrival, TimePoint now);
  // Called in a turn after mark_ready().
  void run(TimePoint now);
  // Tries the application's stream without waiting for its event; true when a turn is due.
  bool look();
  void handle_ready(event::Stream& stream) override;

  void handle_connection_event() override;
  void handle_group_confirmed(TimePoint now) override;
  void handle_group_refused(FallbackReason reason, TimePoint now) override;
  void handle_group_lost(TimePoint now) override;
  void handle_rmb_told(TimePoint now) override;
  // It stood in line for a handshake with its peer.
  void handle_turn();
  // The worker ends: what the application was told is sent goes out, then the connection is
  // aborted.
  void shut_down(const char* why);
  // Ends at once, with a reset on both streams.
  void abandon(const char* why);

  std::uint64_t number() const { return number_; }
  bool outbound() const { return direction_ == Direction::kOutbound; }
  Direction direction() const { return direction_; }
  bool negotiating() const { return setup_ != nullptr; }
  bool dead() const { return phase_ == Phase::kDead; }
  // The negotiation refers to it.
  bool uses(const DeviceSlot& slot) const { return setup_ != nullptr && setup_->slot == &slot; }
  const SmcRelay* smc() const { return smc_.get(); }
  std::string id() const;
  ConnectionRow row(TimePoint now) const;

  bool queued = false;  // in the worker's ready list

 private:
  enum class Turn : std::uint8_t { kNone, kInLine, kTaken };
  // What only the negotiation needs; freed when it is over.
  struct SetUp {
    SetUp(event::TimerQueue& timers, std::function<void()> on_timer, TimePoint now)
        : timer(timers, std::move(on_timer)), began(now) {}
    event::Timer timer;
    TimePoint began;
    std::optional<smc::Handshake> handshake;
    std::vector<std::byte> unread;  // read from `net`, not yet taken by the handshake
    std::vector<const char*> steps;
    const char* phase = "accept";
    Arrival arrival = Arrival::kAtListener;
    // Decided: TCP, as soon as both streams stand; `outcome` has the rest.
    std::optional<FallbackReason> plain_reason;
    bool frames_awaited = false;                  // inbound: the client may begin with them
    bool assumed = false;                         // by configuration; no option was seen
    bool withheld = false;                        // a device is, from this peer
    bool counted = false;                         // as one of limits.handshakes
    std::optional<SocketAddress> counted_client;  // whose it is, for an inbound one
    Turn turn = Turn::kNone;   // outbound: among the handshakes with the destination
    bool forms_group = false;  // ours is the first contact
    bool telling = false;      // queued until the peer knows the memory of our seat
    // The link that the Accept or Confirm names. Its slot may have another link meanwhile, which
    // the number tells; 0 at first contact.
    smc::LinkIndex named_on = 0;
    LinkNumber named_link;
    DeviceSlot* slot = nullptr;  // that leads to the peer; outbound, before the Accept: the offered
    rdma::Port port;             // of `slot`
    Gid peer_gid;
    // Inbound, first contact: CONFIRM_LINK has waited for the client's memory since then.
    std::optional<TimePoint> client_memory_since;
    smc::Terms terms;
    std::uint16_t vlan = 0;      // version 1: of the TCP connection
    wire::Proposal proposal;     // outbound: what we sent
    wire::AcceptConfirm accept;  // inbound: what we sent
    smc::Handshake::Outcome outcome;

    bool accept_sent() const { return accept.alert_token.value != 0; }
  };

  // Bytes that the statistics have.
  struct Counted {
    std::uint64_t tx = 0;
    std::uint64_t rx = 0;
    std::uint64_t framed_tx = 0;  // of tx: what went in frames, once these are over
  };

  // What has become of `net_` under an SMC-R connection.
  struct Companion {
    bool reset = false;                    // before its connection was SMC-R
    bool told = false;                     // of its reset; acted on in the next turn
    std::optional<TimePoint> ended_until;  // it has ended; until when the peer may say why
  };

  Place place(std::optional<Gid> peer_gid = std::nullopt) const {
    Place place(*net_, peer_gid);
    place.version = setup_->terms.version;
    return place;
  }
  void note(const char* step);
  void on_timer();
  void arm_timer();

  void start_outbound(TimePoint now);
  void start_inbound(TimePoint now);
  void dial_net(bool with_option, TimePoint now);
  void probe_peer_later();
  void give_up_line(TimePoint now);
  void end_turn();
  void dial_app(TimePoint now);
  void run_dialing(TimePoint now);
  void net_connected(TimePoint now);
  void propose(TimePoint now);
  void app_connected(TimePoint now);
  void dial_failed(int error);
  void decline_first(FallbackReason reason, const char* detail, TimePoint now);
  std::optional<smc::OfferV1> offer_version_1();
  void redial_plain(FallbackReason reason, const char* detail, TimePoint now);

  std::optional<FallbackReason> obstacle_to_handshake();
  void hand_over(TimePoint now);
  void answer_hand_over(TimePoint now);
  void enter_handshake(TimePoint now);
  bool take_last_frames();

  void run_handshake(TimePoint now);
  bool handshake_awaits_link() const {
    return setup_->handshake->state() == smc::Handshake::State::kAwaitingLink;
  }
  bool write_handshake();
  bool fetch_for_handshake(TimePoint now);
  bool read_handshake(TimePoint now);
  void name_own_obstacle(smc::Handshake::Outcome& outcome);
  void handshake_declined(TimePoint now);
  void handshake_failed(TimePoint now);
  void serve_stranger(smc::Handshake::Outcome outcome, TimePoint now);
  void message_in_hand(TimePoint now);
  void handle_accept(TimePoint now);
  bool choose_slot_of_server(const Gid& gid);
  bool gateway_disputed(const wire::AcceptConfirm& accept) const;
  void join_named_link(const PeerKey& key, const wire::AcceptConfirm& accept, TimePoint now);
  void confirm_named_link(TimePoint now);
  void await_proposal(TimePoint now);
  void handle_proposal(TimePoint now);
  std::optional<FallbackReason> find_way_to_client();
  void answer_proposal(TimePoint now);
  void send_accept(TimePoint now);
  void handle_confirm(TimePoint now);
  void await_client_memory(TimePoint now);
  void disown_named_link(TimePoint now);
  void decline(FallbackReason reason, bool out_of_sync, TimePoint now);
  FallbackReason reason_for(const Error& lack, FallbackReason reason);

  // session_join.cc
  PeerKey peer_key(smc::GroupRole role, const PeerId& peer, const Mac& mac) const;
  // Peers of version 1 are in one subnet.
  static bool direct_by(const wire::AcceptConfirm& own) {
    return !own.first_contact_v2 || own.first_contact_v2->direct;
  }
  Result<Group*> make_group(const PeerKey& key);
  RingSizes sizes_beside(const wire::AcceptConfirm& accept) const;
  Result<void> take_seat(Group& group, smc::LinkIndex link, const RingSizes& sizes);
  void set_named_link(smc::LinkIndex link);
  std::optional<smc::LinkIndex> named_link() const;
  bool await_told(TimePoint now);
  TimePoint queue_end(TimePoint now) const;
  void name_peer_rmb(const wire::AcceptConfirm& answer);
  Result<void> set_peer(const wire::AcceptConfirm& answer);
  wire::AcceptConfirm describe_seat(wire::ClcType type, bool first_contact) const;
  void leave_group(TimePoint now, bool quarantine);
  void fail_forming_group(TimePoint now);

  void become_smc(TimePoint now);
  void become_tcp(Side side, FallbackReason reason, std::uint32_t peer_code, const char* detail,
                  TimePoint now);
  void become_tcp_expected(FallbackReason reason, TimePoint now) {
    become_tcp(Side::kLocal, reason, 0, "", now);
  }
  void record_decision(Transport transport, Side side, const FallbackInfo* info,
                       std::uint32_t peer_code, TimePoint now);
  void end_setup();
  void run_smc(TimePoint now);
  std::uint32_t publish_bytes() const;
  void await_last_word(TimePoint now);
  void wake_at(std::optional<TimePoint> deadline);
  void run_tcp(TimePoint now);
  void begin_in_frames(TimePoint now);
  void run_frames(TimePoint now);
  void end_frames();
  void fail_handshake(const char* why);
  void refuse_peer(const char* detail);
  void leave_frames();
  void record_short();
  void watch_companion(TimePoint now);
  void end_without_companion();
  // In TCP mode: looks now and then whether a peer that owes an acknowledgement still is there.
  void watch_silence();
  void lose_tcp(int error);  // errno of the socket towards the peer
  void report_vanished(const std::string& what);
  Transport transport() const;
  void count_bytes();
  void pay_for_growth();
  void refuse_for_memory();
  void die();

  struct Timers {
    std::optional<event::Timer> wait;        // of an SMC connection; looks of one in TCP mode
    std::optional<event::Timer> last_words;  // of a TCP connection
    std::optional<event::Timer> probes;      // of an outbound connection
    void cancel() {
      wait.reset();
      last_words.reset();
      probes.reset();
    }
  };

  SessionServices& services_;
  const std::uint64_t number_;
  const Direction direction_;
  Phase phase_ = Phase::kDialing;
  SocketAddress destination_;
  bpf::ClientAddressLease client_slot_;  // outlives app_
  SocketMemory memory_;
  std::unique_ptr<event::Stream> app_;
  std::unique_ptr<event::Stream> net_;
  std::unique_ptr<SetUp> setup_;
  std::unique_ptr<SmcRelay> smc_;
  std::unique_ptr<TcpRelay> tcp_;
  std::unique_ptr<FramedRelay> framed_;  // until the transport is decided
  std::optional<Group::Seat> seat_;
  Timers timers_;
  PeerSilence silence_;
  bool peer_gone_ = false;  // by silence_
  std::optional<TimePoint> close_wait_;
  std::optional<FallbackReason> reason_;
  std::optional<ClientAddress> client_address_;  // inbound: once the application was dialled
  Companion companion_;
  TimePoint began_;
  Counted counted_;
};

}  // namespace fairlead::relay
