#include "sim/application.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace fairlead::sim {
namespace {

using Kind = event::IoResult::Kind;

// A prime, so that the pattern never has the same position in a ring twice.
constexpr std::size_t kPatternBytes = 65521;

const std::array<std::byte, kPatternBytes>& pattern() {
  static const auto table = [] {
    std::array<std::byte, kPatternBytes> bytes;
    Random random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }();
  return table;
}

Duration up_to(Random& random, Duration most) {
  return Duration{
      static_cast<std::int64_t>(random.between(0, static_cast<std::uint64_t>(most.count())))};
}

}  // namespace

std::span<const std::byte> Application::piece_of(bool dialler, std::uint64_t at,
                                                 std::size_t most) const {
  const std::size_t begin = (at + connection_ * 7919U + (dialler ? 0U : 31337U)) % kPatternBytes;
  return std::span(pattern()).subspan(begin, std::min(most, kPatternBytes - begin));
}

void Application::attach(std::unique_ptr<SimStream> stream) {
  stream_ = std::move(stream);
  stream_->set_handler(this);
  report_.accepted = !dialler_;
  paced_ = true;
  scheduled_ = false;
  world_.after(script_.start_delay, [this] {
    paced_ = false;
    schedule(Duration{});
  });
}

void Application::schedule(Duration delay) {
  if (scheduled_ || paced_ || !stream_) return;
  scheduled_ = true;
  world_.after(delay + up_to(world_.random, std::chrono::microseconds(5)), [this] {
    scheduled_ = false;
    if (stream_) step();
  });
}

void Application::step() {
  if (!stream_->connected()) return;
  if (dialler_ && !report_.accepted) {
    if (const int error = stream_->take_error(); error != 0) {
      report_.saw_error = error;
      return leave("could not connect");
    }
    report_.accepted = true;
  }
  bool more = receive();
  if (!stream_) return;
  more = send() || more;
  if (!stream_) return;
  if (report_.sent + report_.received >= script_.reset_after) {
    stream_->reset_on_close();
    report_.rude = true;
    return leave("resets");
  }
  finish_if_done();
  if (!stream_ || !more) return;
  // During a pause only time makes it continue; the stream remembers its readiness.
  paced_ = script_.pause_max.count() != 0;
  if (!paced_) return schedule(Duration{});
  world_.after(up_to(world_.random, script_.pause_max), [this] {
    paced_ = false;
    schedule(Duration{});
  });
}

// True when there may be more.
bool Application::receive() {
  if (!stalled_ && report_.received >= script_.stall_after) {
    stalled_ = true;
    stalled_until_ = world_.now() + script_.stall;
    world_.at(stalled_until_, [this] { schedule(Duration{}); });
  }
  if (world_.now() < stalled_until_ || !stream_->readable() || report_.saw_fin) return false;
  std::array<std::byte, 16384> bytes;
  const iovec into{bytes.data(), std::min(script_.read_max, bytes.size())};
  const event::IoResult result = stream_->read({&into, 1});
  switch (result.kind) {
    case Kind::kWouldBlock:
      return false;
    case Kind::kError:
      report_.saw_error = result.error;
      leave("was reset");
      return false;
    case Kind::kEnd:
      report_.saw_fin = true;
      world_.trace("#%u %s: FIN after %llu bytes", connection_, name(),
                   static_cast<unsigned long long>(report_.received));
      return false;
    case Kind::kBytes:
      break;
  }
  for (std::size_t done = 0; done < result.count;) {
    const auto piece = piece_of(!dialler_, report_.received + done, result.count - done);
    const std::byte* const read = bytes.data() + done;
    if (std::memcmp(piece.data(), read, piece.size()) == 0) {
      done += piece.size();
      continue;
    }
    const auto wrong = std::mismatch(piece.begin(), piece.end(), read).second - bytes.data();
    return world_.fail("#%u %s: byte %llu is not what was sent", connection_, name(),
                       static_cast<unsigned long long>(report_.received +
                                                       static_cast<std::uint64_t>(wrong))),
           false;
  }
  report_.received += result.count;
  if (peer_ == nullptr || report_.received > peer_->sent)
    world_.fail("#%u %s: received more bytes than were sent", connection_, name());
  return stream_->readable();
}

bool Application::send() {
  // There is no further data to wait for.
  const bool freely = script_.lead == kNever || report_.saw_fin;
  const std::uint64_t allowed =
      freely ? script_.bytes : std::min(script_.bytes, report_.received + script_.lead);
  if (report_.sent >= allowed || !stream_->writable() || report_.finished) return false;
  std::array<std::byte, 16384> bytes;
  const std::size_t most = static_cast<std::size_t>(
      std::min<std::uint64_t>({bytes.size(), script_.chunk_max, allowed - report_.sent}));
  const std::size_t count = world_.random.between(1, most);
  for (std::size_t done = 0; done < count;) {
    const auto piece = piece_of(dialler_, report_.sent + done, count - done);
    std::memcpy(bytes.data() + done, piece.data(), piece.size());
    done += piece.size();
  }
  const iovec from{bytes.data(), count};
  const event::IoResult result = stream_->write({&from, 1});
  if (result.kind == Kind::kError) {
    // If data is left before the reset, the reads report the error.
    report_.saw_error = result.error;
    leave("was reset while writing");
    return false;
  }
  if (result.kind != Kind::kBytes) return false;
  report_.sent += result.count;
  return report_.sent < allowed && stream_->writable();
}

void Application::finish_if_done() {
  if (report_.sent == script_.bytes && !report_.finished) {
    if (script_.ending == Script::Ending::kClose) {
      report_.finished = true;
      report_.rude = !report_.saw_fin;
      return leave("closes");
    }
    if (script_.ending != Script::Ending::kAnswer || report_.saw_fin) {
      report_.finished = true;
      stream_->shutdown_write();
    }
  }
  if (report_.finished && script_.ending == Script::Ending::kVanish) return vanish();
  if (report_.finished && report_.saw_fin) leave("is done");
}

void Application::vanish() {
  if (stream_->unsent(event::Stream::Until::kAcknowledged) != 0)
    return world_.after(std::chrono::milliseconds(1), [this] { schedule(Duration{}); });
  stream_->reset_on_close();
  report_.rude = true;
  leave("vanishes behind its FIN");
}

void Application::leave(const char* how) {
  world_.trace("#%u %s: %s; %llu out, %llu in", connection_, name(), how,
               static_cast<unsigned long long>(report_.sent),
               static_cast<unsigned long long>(report_.received));
  report_.gone = true;
  stream_.reset();
}

}  // namespace fairlead::sim
