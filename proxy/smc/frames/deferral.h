// Start of a connection in frames over TCP, between two proxies that both announced it in SYN and
// SYN/ACK. Decides what each side may send, and when the connection changes to SMC-R. Sans-IO, for
// both roles. Read first: docs/wire.md, "Frames".
//
// The client hands over: its frame says that CLC follows. The server answers alike, and from there
// on the stream is that of an ordinary handshake. Nobody is kept waiting by an application that
// does not read: a direction carries only what its receiver has allowed, and the receiver takes all
// of it whatever its application does. It allows kFramedBytesMax, or where both sides know windows
// kFirstWindowBytes and later more. The bound goes when the client's application has ended, because
// such a connection is not handed over any more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "wire/frame.h"

namespace fairlead::smc {

inline constexpr std::uint64_t kFramedBytesMax = 128 * 1024;
inline constexpr std::uint64_t kFirstWindowBytes = 4096;

class Deferral {
 public:
  enum class Role : std::uint8_t { kClient, kServer };

  // Reaching any of them starts the change to SMC-R.
  struct Limits {
    std::uint64_t bytes = 0;  // both directions together; below kFramedBytesMax
    unsigned turns = 0;       // requests behind an answer
    Duration time{};          // of a connection that still moves bytes
  };

  enum class Windows : std::uint8_t { kNone, kKnown };
  // How many bytes each side may send before the other one has said anything of windows.
  static constexpr std::uint64_t first_window_bytes(Windows windows) {
    return windows == Windows::kKnown ? kFirstWindowBytes : kFramedBytesMax;
  }

  Deferral(Role role, const Limits& limits, TimePoint began, Windows windows = Windows::kNone);

  // What has passed in one direction.
  struct Half {
    std::uint64_t bytes = 0;
    bool ended = false;
    bool handed_over = false;
  };
  // All but role, limits and beginning: for another process that goes on with the connection.
  struct State {
    Half sent, received;
    // How many bytes each side may send in frames.
    std::uint64_t sent_max = kFramedBytesMax;
    std::uint64_t received_max = kFramedBytesMax;
    unsigned turns = 0;
    std::uint32_t body_left = 0;  // of a frame with data
    bool urgent = false;          // that frame
    bool answered = false;        // the latest bytes were the peer's
    bool windows = false;         // both sides know them
    // What has come of a header, and of the body of a hand-over.
    std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> head{};
    std::size_t head_bytes = 0;
  };
  // Error kMalformed: no connection has this state.
  static Result<Deferral> resume(Role role, const Limits& limits, TimePoint began,
                                 const State& state);
  const State& state() const { return state_; }

  // One part of the received bytes. kHandOver is the last one; bytes after it are not taken.
  struct Piece {
    enum class Kind : std::uint8_t { kNothing, kData, kUrgent, kEnd, kHandOver };
    Kind kind = Kind::kNothing;
    std::size_t taken = 0;             // of the bytes given
    std::span<const std::byte> bytes;  // kData, kUrgent: for the application
  };
  // Returns the next part of `bytes`, which follow those taken before. Error kMalformed: the
  // connection must end.
  Result<Piece> take(std::span<const std::byte> bytes);

  // True while the peer's window can be opened.
  bool may_open_window() const;
  // The frame that opens it. REQUIRES: may_open_window(), and bytes_received_max() < max <=
  // kFramedBytesMax
  std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> open_window(
      std::uint64_t max);

  // How many more bytes of the application may be sent in frames; at most kFrameBytesMax.
  std::size_t room() const;
  // True if the application's next bytes must wait for the relay that follows the hand-over.
  bool held() const { return room() == 0 && !state_.sent.ended; }
  // Headers of frames; send them whole and in this order. REQUIRES: count <= room(), not ended or
  // handed over
  std::array<std::byte, wire::kFrameHeaderBytes> send_data(std::size_t count);
  std::array<std::byte, wire::kFrameHeaderBytes> send_urgent();
  std::array<std::byte, wire::kFrameHeaderBytes> send_end();
  // REQUIRES: may_hand_over()
  std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> send_hand_over();

  // Client: its application has not ended. Server: the client has handed over.
  bool may_hand_over() const;
  // Client: time to hand over.
  bool earned(TimePoint now) const;
  std::uint64_t bytes_sent() const { return state_.sent.bytes; }
  std::uint64_t bytes_received() const { return state_.received.bytes; }
  std::uint64_t bytes_sent_max() const { return state_.sent_max; }
  std::uint64_t bytes_received_max() const { return state_.received_max; }
  bool windows() const { return state_.windows; }
  // A side waits for a window. If that lasts, a client hands over to get out of it.
  bool window_blocks() const;
  bool ended() const { return state_.sent.ended; }
  bool peer_ended() const { return state_.received.ended; }
  bool handed_over() const { return state_.sent.handed_over; }
  bool peer_handed_over() const { return state_.received.handed_over; }
  // True if frames have no byte limit any more: read them only as fast as the application reads.
  bool unbounded() const { return (role_ == Role::kClient ? state_.sent : state_.received).ended; }

 private:
  Result<Piece> take_header(std::span<const std::byte> bytes);
  Result<void> take_window(std::uint64_t max);
  Result<void> judge(const wire::FrameHeader& header) const;

  Role role_;
  Limits limits_;
  TimePoint began_;
  State state_;
};

}  // namespace fairlead::smc
