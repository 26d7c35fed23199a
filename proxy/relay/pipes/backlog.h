// Bytes that a stream has not taken yet, in order. If several bytes are urgent, only the last one
// stays urgent, as in TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "event/stream.h"

namespace fairlead::relay {

// The memory grows in these steps, so that it is never much more than the waiting bytes.
inline constexpr std::size_t kBacklogStepBytes = 4096;

// The content of a backlog, for transfer to another one.
struct BacklogContent {
  std::vector<std::byte> bytes;
  std::optional<std::size_t> urgent_at;  // the index of the byte that is urgent
  std::uint64_t written = 0;             // bytes that the stream has taken so far
};

class Backlog {
 public:
  enum class State : std::uint8_t {
    kEmpty,
    kWaiting,  // for the stream to become writable
    kRefused,  // the stream takes no more bytes
  };

  Backlog() = default;
  // REQUIRES: urgent_at, if set, is an index into bytes
  explicit Backlog(BacklogContent content);
  BacklogContent release();

  // Writes the bytes after those that wait. What the stream does not take waits.
  State write(event::Stream& to, std::span<const std::byte> bytes, bool urgent);
  // Writes the waiting bytes.
  State flush(event::Stream& to);
  void drop();  // discards the waiting bytes
  bool empty() const { return at_ == bytes_.size(); }
  // Memory held: at most what was written since the backlog was empty, rounded up to whole steps.
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
