#include "relay/pipes/backlog.h"

#include <utility>

#include "base/assert.h"

namespace fairlead::relay {
namespace {

using Kind = event::IoResult::Kind;

event::IoResult write_piece(event::Stream& to, std::span<const std::byte> bytes, bool urgent) {
  if (urgent) return to.write_urgent(bytes[0]);
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return to.write({&piece, 1});
}

}  // namespace

Backlog::Backlog(BacklogContent content)
    : bytes_(std::move(content.bytes)), urgent_at_(content.urgent_at), written_(content.written) {
  SMC_ASSERT(!urgent_at_ || *urgent_at_ < bytes_.size(), *urgent_at_, bytes_.size());
}

BacklogContent Backlog::release() {
  BacklogContent content{{}, std::nullopt, written_};
  content.bytes.assign(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), bytes_.end());
  if (urgent_at_ && *urgent_at_ >= at_) content.urgent_at = *urgent_at_ - at_;
  drop();
  return content;
}

Backlog::State Backlog::write(event::Stream& to, std::span<const std::byte> bytes, bool urgent) {
  if (empty() && to.writable()) {
    const event::IoResult result = write_piece(to, bytes, urgent);
    if (result.kind == Kind::kError) return State::kRefused;
    if (result.kind == Kind::kBytes) {
      written_ += result.count;
      bytes = bytes.subspan(result.count);
    }
  }
  if (bytes.empty()) return State::kEmpty;
  if (urgent) urgent_at_ = bytes_.size();
  append(bytes);
  // The stream reports room by an event only after a write that found none.
  return flush(to);
}

// Grows in steps: by itself, a vector could take up to twice as much, which is not paid for.
void Backlog::append(std::span<const std::byte> bytes) {
  const std::size_t wanted = bytes_.size() + bytes.size();
  if (wanted > bytes_.capacity())
    bytes_.reserve((wanted + kBacklogStepBytes - 1) / kBacklogStepBytes * kBacklogStepBytes);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Backlog::State Backlog::flush(event::Stream& to) {
  while (!empty()) {
    if (!to.writable()) return State::kWaiting;
    const bool urgent = urgent_at_ == at_;
    const bool before = urgent_at_ && at_ < *urgent_at_;
    const std::size_t end = urgent ? at_ + 1 : before ? *urgent_at_ : bytes_.size();
    const event::IoResult result =
        write_piece(to, std::span(bytes_).subspan(at_, end - at_), urgent);
    if (result.kind == Kind::kError) return State::kRefused;
    if (result.kind != Kind::kBytes) return State::kWaiting;
    at_ += result.count;
    written_ += result.count;
  }
  drop();
  return State::kEmpty;
}

void Backlog::drop() {
  bytes_ = std::vector<std::byte>();  // {} would keep the memory
  at_ = 0;
  urgent_at_.reset();
}

}  // namespace fairlead::relay
