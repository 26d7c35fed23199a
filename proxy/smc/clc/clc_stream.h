// Splits a TCP stream into CLC messages. Takes no byte beyond the current message: the bytes after
// a Decline belong to the application.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/result.h"
#include "wire/clc.h"

namespace fairlead::smc {

class ClcStream {
 public:
  // Takes the bytes that belong to the current message and returns their count. After complete(),
  // takes nothing until next(). An error means that the stream is not CLC, or is malformed.
  Result<std::size_t> feed(std::span<const std::byte> bytes);

  bool empty() const { return count_ == 0; }
  bool complete() const { return header_ && count_ == header_->length_bytes; }
  // The bytes taken so far; the whole message when complete().
  std::span<const std::byte> bytes() const { return {buffer_.data(), count_}; }
  const wire::ClcHeader& header() const { return *header_; }  // REQUIRES: complete()
  void next();

 private:
  std::array<std::byte, wire::kClcBytesMax> buffer_{};
  std::size_t count_ = 0;
  std::optional<wire::ClcHeader> header_;
};

}  // namespace fairlead::smc
