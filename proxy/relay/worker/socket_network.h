// The real network: kernel sockets on a libevent loop, and the SMC option written by our own eBPF
// program or another one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/client_address_slots.h"
#include "bpf/option_program.h"
#include "config/config.h"
#include "event/event_loop.h"
#include "event/tcp_stream.h"
#include "relay/connection/socket_memory.h"
#include "relay/worker/network.h"
#include "relay/worker/source_addresses.h"

namespace fairlead::relay {

// Which program writes the option for our sockets.
enum class OptionSource : std::uint8_t {
  kNone,
  kOwn,       // our program, for the sockets that we ask it for
  kExternal,  // somebody else's program, which covers all our sockets
};

// Limit of what may wait in our socket from and for an application in the pod. The application is
// microseconds away, so more would not be faster. The kernel would let it grow to megabytes per
// connection, which fills its memory for TCP and leaves the cache cold. The host's
// net.core.rmem_max and wmem_max may lower it.
inline constexpr int kApplicationSocketBytes = 256 * 1024;
static_assert(kApplicationSocketBytes == kSocketBufferBytes[kApplicationLevel]);

class SocketNetwork final : public Network {
 public:
  // `program` is set exactly with kOwn; all workers share it, and it outlives them. `frames`: our
  // listeners announce that connections may begin in frames.
  SocketNetwork(event::EventLoop& loop, OptionSource source, const bpf::OptionProgram* program,
                const config::Tcp& tcp, bool frames);

  TimePoint now() const override { return event::EventLoop::now(); }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::now();
  }
  Result<ApplicationLeg> dial_application(const SocketAddress& to, const SocketAddress& client,
                                          unsigned memory_level) override;
  bool answer_application(event::Stream& app) override;
  bool application_connected(event::Stream& app) override;
  void refuse_application(event::Stream& app, int error) override;
  Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to, bpf::Announced announce,
                                                   const SocketAddress* client,
                                                   unsigned memory_level) override;
  void keep_client_slot(std::uint32_t slot) override;
  void probe_peer(event::Stream& dialled) override;
  bool option_available() const override { return source_ != OptionSource::kNone; }
  // REQUIRES: the source is not kOwn.
  void set_external_option(bool attached) {
    source_ = attached ? OptionSource::kExternal : OptionSource::kNone;
  }
  bpf::Announced option_answered(event::Stream& stream) override;
  bpf::Announced option_requested(event::Stream& stream) override;

  // Sets whether applications of future connections see the client's address: kShown (only after
  // use_client_address_map()), or kOff or kUnavailable.
  void set_client_address(ClientAddress state);
  // Maps the map that programs of our pod's cgroup read. An earlier map is replaced, and its
  // entries are copied. Worker `worker` of `workers` uses its share of the slots.
  Result<void> use_client_address_map(int map_fd, unsigned worker, unsigned workers,
                                      std::uint64_t seed);

  // Prepares a listener of the proxy before listen(2): one for other hosts, or one for applications
  // of the pod. After listen(2), call peer_listener_listens() for the former.
  Result<void> prepare_peer_listener(int fd) const;
  void peer_listener_listens(int fd) const;
  void prepare_application_listener(int fd) const;
  // Gives a peer listener that listens already the buffers of memory_level(). Does nothing before
  // Linux 5.15, which cannot return the choice to the kernel.
  void bound_peer_listener(int fd) const;
  // True if listeners for peers are prepared to announce frames.
  bool frames() const { return frames_; }
  // Starts or stops the announcement of frames by listeners for peers on this port.
  Result<void> announce_frames(std::uint16_t port, bool announce) const;

  // SocketMemory::level_for(), for connections that listeners for applications accept from now on.
  // The listeners have to be prepared again. Below kApplicationLevel connections begin with small
  // buffers and small segments.
  void set_memory_level(unsigned level) { memory_level_ = level; }
  unsigned memory_level() const { return memory_level_; }

 private:
  // `source`: the address to bind, or nullptr.
  Result<std::unique_ptr<event::Stream>> dial(const SocketAddress* source, const SocketAddress& to,
                                              unsigned memory_level);

  event::EventLoop& loop_;
  OptionSource source_;
  const bpf::OptionProgram* program_;
  const bool frames_;            // our listeners announce them
  event::KeepAlive keep_alive_;  // of sockets to and from other hosts
  unsigned memory_level_ = kApplicationLevel;
  ClientAddress client_address_ = ClientAddress::kUnavailable;
  std::optional<bpf::ClientAddressSlots> client_slots_;
  std::vector<std::uint32_t> kept_slots_;  // of connections of another process
  SourceAddresses sources_;
};

}  // namespace fairlead::relay
