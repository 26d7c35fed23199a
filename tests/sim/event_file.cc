#include "sim/event_file.h"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "sim/sim_queue_pair.h"
#include "wire/frame.h"

namespace fairlead::sim {
namespace {

constexpr std::array kClcBegin = {std::byte{0xe2}, std::byte{0xd4}, std::byte{0xc3}};

}  // namespace

void EventFile::hex(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) std::fprintf(out_, "%02x", std::to_integer<unsigned>(byte));
}

void EventFile::line(const char* what, std::uint64_t key) {
  std::fprintf(out_, "%s %" PRIu64 "\n", what, key);
}

void EventFile::line(const char* what, std::uint64_t key, std::uint64_t value) {
  std::fprintf(out_, "%s %" PRIu64 " %" PRIu64 "\n", what, key, value);
}

void EventFile::line(const char* what, std::uint64_t key, std::uint64_t value, std::uint64_t more) {
  std::fprintf(out_, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", what, key, value, more);
}

void EventFile::seed(std::uint64_t seed) {
  framed_.clear();
  line("seed", seed);
}

void EventFile::connect(const SimQueuePair& queue_pair) {
  const Gid own = queue_pair.gid();
  std::fprintf(out_, "connect %" PRIu64 " ", queue_pair.id());
  hex(std::as_bytes(std::span(queue_pair.peer().gid.bytes)));
  std::fprintf(out_, " %u ", queue_pair.peer().queue_pair.value);
  hex(std::as_bytes(std::span(own.bytes)));
  std::fprintf(out_, " %u\n", queue_pair.number().value);
}

void EventFile::post(const SimQueuePair& queue_pair, const rdma::WorkRequest& request) {
  const auto id = static_cast<std::uint64_t>(request.id);
  if (request.kind == rdma::WorkRequest::Kind::kWrite) {
    std::fprintf(out_, "write %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %u\n", queue_pair.id(), id,
                 request.to.rkey.value, request.to.address.value, request.from.length_bytes);
    return;
  }
  std::fprintf(out_, "post %" PRIu64 " %" PRIu64 " ", queue_pair.id(), id);
  hex(request.message);
  std::fputc('\n', out_);
}

void EventFile::take(std::uint64_t queue_pair) { line("take", queue_pair); }

void EventFile::deliver(std::uint64_t from, std::uint64_t to) {
  std::fprintf(out_, "deliver %" PRIu64 " %" PRIu64 "\n", from, to);
}

void EventFile::done(std::uint64_t queue_pair, const rdma::Completion& completion) {
  std::fprintf(out_, "done %" PRIu64 " %" PRIu64 " %u\n", queue_pair,
               static_cast<std::uint64_t>(completion.id), static_cast<unsigned>(completion.status));
}

void EventFile::fault(std::uint64_t queue_pair) { line("fault", queue_pair); }

void EventFile::broken(std::uint64_t queue_pair) { line("broken", queue_pair); }

void EventFile::fail(std::uint64_t queue_pair) { line("fail", queue_pair); }

void EventFile::gone(std::uint64_t queue_pair) { line("gone", queue_pair); }

void EventFile::clc(std::uint64_t tcp, unsigned side, std::span<const std::byte> bytes) {
  if (bytes.size() < kClcBegin.size() ||
      !std::equal(kClcBegin.begin(), kClcBegin.end(), bytes.begin()))
    return;
  std::fprintf(out_, "clc %" PRIu64 " %u ", tcp, side);
  hex(bytes);
  std::fputc('\n', out_);
}

void EventFile::framed(std::uint64_t tcp, unsigned side, std::span<const std::byte> bytes) {
  for (const auto& preface : {wire::kFramePreface, wire::kWindowsPreface})
    if (side == 0 && bytes.size() >= preface.size() &&
        std::equal(preface.begin(), preface.end(), bytes.begin()))
      framed_.insert(tcp);
  if (!framed_.contains(tcp)) return;
  std::fprintf(out_, "framed %" PRIu64 " %u ", tcp, side);
  hex(bytes);
  std::fputc('\n', out_);
}

void EventFile::dialled(std::uint64_t tcp, unsigned from, unsigned to, unsigned port) {
  std::fprintf(out_, "tcp %" PRIu64 " %u %u %u\n", tcp, from, to, port);
}

void EventFile::read(std::uint64_t tcp, unsigned side, const event::IoResult& result) {
  if (result.kind == event::IoResult::Kind::kBytes) line("read", tcp, side, result.count);
  if (result.kind == event::IoResult::Kind::kEnd) line("fin", tcp, side);
  if (result.kind == event::IoResult::Kind::kError) error(tcp, side, Met::kReading);
}

void EventFile::written(std::uint64_t tcp, unsigned side, const event::IoResult& result) {
  if (result.kind == event::IoResult::Kind::kBytes) line("sent", tcp, side, result.count);
  if (result.kind == event::IoResult::Kind::kError) error(tcp, side, Met::kWriting);
}

void EventFile::asked(std::uint64_t tcp, unsigned side) { error(tcp, side, Met::kAsking); }

void EventFile::shut(std::uint64_t tcp, unsigned side) { line("shut", tcp, side); }

void EventFile::close(std::uint64_t tcp, unsigned side, bool reset, Duration idle) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(idle).count();
  std::fprintf(out_, "close %" PRIu64 " %u %u %" PRIu64 "\n", tcp, side, reset ? 1U : 0U,
               static_cast<std::uint64_t>(milliseconds));
}

void EventFile::proxy(unsigned pod, ProxyEnd what) {
  line("proxy", pod, static_cast<std::uint64_t>(what));
}

}  // namespace fairlead::sim
