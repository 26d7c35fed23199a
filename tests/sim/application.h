// Scripted applications. Each end of a connection sends a byte stream that is a function of the
// connection's number and the direction. It compares each received byte with the other end's
// stream. checks.h decides which ends are allowed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sim/tcp.h"

namespace fairlead::sim {

inline constexpr std::uint64_t kNever = UINT64_MAX;

struct Script {
  enum class Ending : std::uint8_t {
    kShutdown,  // FIN when all is sent, close when the peer's FIN has come
    kAnswer,    // FIN only after the peer's
    kClose,     // close when all is sent, even if the peer still sends
    kVanish,    // FIN when all is sent, and a reset when that has arrived
  };
  Ending ending = Ending::kShutdown;
  std::uint64_t bytes = 0;        // to send
  std::uint64_t lead = kNever;    // how far sending may be ahead of receiving; small: ping-pong
  std::size_t chunk_max = 16384;  // of a write
  std::size_t read_max = 16384;
  Duration pause_max{};  // between two steps
  Duration start_delay{};
  std::uint64_t stall_after = kNever;  // received this much, it reads nothing for a while
  Duration stall{};
  std::uint64_t reset_after = kNever;  // sent and received this much in all, it resets
};

// Actions and observations of an end.
struct EndReport {
  std::uint64_t sent = 0, received = 0;
  bool accepted = false;  // dialled or accepted at all
  bool finished = false;  // all bytes ended by a FIN of this side
  bool rude = false;      // has reset, or closed while the peer's bytes were in transit
  bool saw_fin = false;
  int saw_error = 0;
  bool gone = false;  // has closed or reset
};

class Application final : public event::StreamHandler {
 public:
  // `connection` and `dialler` determine the bytes.
  Application(World& world, unsigned connection, bool dialler, const Script& script)
      : world_(world), connection_(connection), dialler_(dialler), script_(script) {}

  // The other end's report. A server may be dialled again after a failed attempt.
  void set_peer(const EndReport& peer) { peer_ = &peer; }

  void attach(std::unique_ptr<SimStream> stream);
  const EndReport& report() const { return report_; }
  unsigned connection() const { return connection_; }
  const char* name() const { return dialler_ ? "client" : "server"; }
  bool started() const { return stream_ != nullptr || report_.gone; }

 private:
  void handle_ready(event::Stream&) override { schedule(Duration{}); }
  void schedule(Duration delay);
  void step();
  bool receive();
  bool send();
  void finish_if_done();
  void vanish();
  void leave(const char* how);
  // What a side sends from byte `at` on: as many bytes up to `most` as the table has in one piece.
  std::span<const std::byte> piece_of(bool dialler, std::uint64_t at, std::size_t most) const;

  World& world_;
  const unsigned connection_;
  const bool dialler_;
  const Script script_;
  const EndReport* peer_ = nullptr;
  std::unique_ptr<SimStream> stream_;
  EndReport report_;
  bool scheduled_ = false;
  bool paced_ = false;  // waits for the next step of its own
  TimePoint stalled_until_;
  bool stalled_ = false;
};

}  // namespace fairlead::sim
