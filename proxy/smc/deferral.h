// Start of a connection in frames over TCP, between two proxies that both announced it in SYN and
// SYN/ACK. Decides what each side may send, and when the connection changes to SMC-R. Sans-IO, for
// both roles. Read first: docs/wire.md, "Frames".
//
// The client hands over: its frame says that CLC follows. The server answers alike, and from there
// on the stream is that of an ordinary handshake. Nobody is kept waiting by an application that
// does not read: a direction carries kFramedBytesMax in frames at most, and the receiver takes all
// of it whatever its application does. The bound goes when the client's application has ended,
// because such a connection is not handed over any more.
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

class Deferral {
 public:
  enum class Role : std::uint8_t { kClient, kServer };

  // Reaching any of them starts the change to SMC-R.
  struct Limits {
    std::uint64_t bytes = 0;  // both directions together; below kFramedBytesMax
    unsigned turns = 0;       // requests behind an answer
    Duration time{};          // of a connection that still moves bytes
  };

  Deferral(Role role, const Limits& limits, TimePoint began)
      : role_(role), limits_(limits), began_(began) {}

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

  // How many more bytes of the application may be sent in frames; at most kFrameBytesMax.
  std::size_t room() const;
  // True if the application's next bytes must wait for the relay that follows the hand-over.
  bool held() const { return room() == 0 && !sent_.ended; }
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
  std::uint64_t bytes_sent() const { return sent_.bytes; }
  std::uint64_t bytes_received() const { return received_.bytes; }
  bool ended() const { return sent_.ended; }
  bool peer_ended() const { return received_.ended; }
  bool handed_over() const { return sent_.handed_over; }
  bool peer_handed_over() const { return received_.handed_over; }
  // True if frames have no byte limit any more: read them only as fast as the application reads.
  bool unbounded() const { return (role_ == Role::kClient ? sent_ : received_).ended; }

 private:
  struct Half {
    std::uint64_t bytes = 0;
    bool ended = false;
    bool handed_over = false;
  };
  Result<Piece> take_header(std::span<const std::byte> bytes);
  Result<void> judge(const wire::FrameHeader& header) const;

  Role role_;
  Limits limits_;
  TimePoint began_;
  Half sent_, received_;
  unsigned turns_ = 0;
  bool answered_ = false;        // the latest bytes were the peer's
  std::uint32_t body_left_ = 0;  // of a frame with data
  bool urgent_ = false;
  // A header, and the body of a hand-over.
  std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> head_{};
  std::size_t head_bytes_ = 0;
};

}  // namespace fairlead::smc
