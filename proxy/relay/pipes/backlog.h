// Bytes for a stream that has not taken them yet, in order. Of several urgent bytes the last stays
// urgent, as in TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "event/stream.h"

namespace fairlead::relay {

// Its memory grows in these steps, so that it is never much more than the bytes that wait.
inline constexpr std::size_t kBacklogStepBytes = 4096;

// What waits, for a backlog elsewhere.
struct BacklogContent {
  std::vector<std::byte> bytes;
  std::optional<std::size_t> urgent_at;  // the index of the byte that is urgent
  std::uint64_t written = 0;             // bytes that a stream has taken before
};

class Backlog {
 public:
  enum class State : std::uint8_t {
    kEmpty,
    kWaiting,  // for the stream to become writable
    kRefused,  // the stream takes nothing any more
  };

  Backlog() = default;
  // REQUIRES: urgent_at, if any, is an index of bytes
  explicit Backlog(BacklogContent content);
  BacklogContent release();

  // Writes the bytes, behind those that wait; what is not taken waits.
  State write(event::Stream& to, std::span<const std::byte> bytes, bool urgent);
  // Writes what waits.
  State flush(event::Stream& to);
  void drop();  // what waits
  bool empty() const { return at_ == bytes_.size(); }
  // Memory that it holds: at most what was written since it was empty, in whole steps.
  std::size_t held_bytes() const { return bytes_.capacity(); }
  // Bytes that a stream has taken.
  std::uint64_t written() const { return written_; }

 private:
  void append(std::span<const std::byte> bytes);

  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
  std::optional<std::size_t> urgent_at_;
  std::uint64_t written_ = 0;
};

}  // namespace fairlead::relay
