// The network as it is: kernel sockets on a libevent loop, and the SMC option by an eBPF program of
// ours or of somebody else.
#pragma once

#include "bpf/option_program.h"
#include "event/event_loop.h"
#include "relay/network.h"

namespace fairlead::relay {

// Who writes the option for our sockets.
enum class OptionSource : std::uint8_t {
  kNone,
  kOwn,       // our program, for the sockets that we ask it for
  kExternal,  // somebody attached one that covers all our sockets
};

class SocketNetwork final : public Network {
 public:
  // `program` is there exactly with kOwn; it is shared by all workers and outlives them.
  SocketNetwork(event::EventLoop& loop, OptionSource source, const bpf::OptionProgram* program)
      : loop_(loop), source_(source), program_(program) {}

  TimePoint now() const override { return event::EventLoop::now(); }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::now();
  }
  Result<std::unique_ptr<event::Stream>> dial(const SocketAddress& to, bool smc_option) override;
  bool option_available() const override { return source_ != OptionSource::kNone; }
  bool option_answered(event::Stream& stream) override;
  bool option_requested(event::Stream& stream) override;

  // For a listener of ours, before listen(2).
  Result<void> prepare_listener(int fd) const;

 private:
  event::EventLoop& loop_;
  OptionSource source_;
  const bpf::OptionProgram* program_;
};

}  // namespace fairlead::relay
