// The network as it is: kernel sockets on a libevent loop, and the SMC option by an own eBPF
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

// Who writes the option for our sockets.
enum class OptionSource : std::uint8_t {
  kNone,
  kOwn,       // our program, for the sockets that we ask it for
  kExternal,  // somebody attached one that covers all our sockets
};

// What may wait in our socket from and for an application beside us. It is microseconds away, so
// more would not be faster: it would only fill the memory that the kernel has for TCP, which it
// lets grow to megabytes a connection, and come out of a cold cache. The host's net.core.rmem_max
// and wmem_max may lower it.
inline constexpr int kApplicationSocketBytes = 256 * 1024;
static_assert(kApplicationSocketBytes == kSocketBufferBytes[kApplicationLevel]);

class SocketNetwork final : public Network {
 public:
  // `program` is there exactly with kOwn; it is shared by all workers and outlives them.
  // `frames`: our listeners announce that connections may begin in frames.
  SocketNetwork(event::EventLoop& loop, OptionSource source, const bpf::OptionProgram* program,
                const config::Tcp& tcp, bool frames);

  TimePoint now() const override { return event::EventLoop::now(); }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::now();
  }
  Result<ApplicationLeg> dial_application(const SocketAddress& to, const SocketAddress& client,
                                          unsigned memory_level) override;
  Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress& to, bpf::Announced announce,
                                                   const SocketAddress* client,
                                                   unsigned memory_level) override;
  void keep_client_slot(std::uint32_t slot) override;
  void probe_peer(event::Stream& dialled) override;
  bool option_available() const override { return source_ != OptionSource::kNone; }
  // Not with kOwn.
  void set_external_option(bool attached) {
    source_ = attached ? OptionSource::kExternal : OptionSource::kNone;
  }
  bpf::Announced option_answered(event::Stream& stream) override;
  bpf::Announced option_requested(event::Stream& stream) override;

  // The applications of connections from now on see the client's address (kShown, after
  // use_client_address_map()), or they do not: kOff or kUnavailable.
  void set_client_address(ClientAddress state);
  // Maps it, as the one that programs of our pod's cgroup read. Instead of an earlier one, whose
  // entries are taken along. Worker `worker` of `workers` uses its share of the slots.
  Result<void> use_client_address_map(int map_fd, unsigned worker, unsigned workers,
                                      std::uint64_t seed);

  // For a listener of the proxy, before listen(2): where other hosts connect, and where
  // applications of the pod do. The former calls peer_listener_listens() afterwards.
  Result<void> prepare_peer_listener(int fd) const;
  void peer_listener_listens(int fd) const;
  void prepare_application_listener(int fd) const;
  // A listener for peers that listens already gets the buffers of memory_level(). Not before Linux
  // 5.15, where the kernel could not be given back the choice.
  void bound_peer_listener(int fd) const;
  // Whether listeners for peers are prepared to announce frames.
  bool frames() const { return frames_; }
  // Listeners for peers on this port announce frames from now on, or no more.
  Result<void> announce_frames(std::uint16_t port, bool announce) const;

  // SocketMemory::level_for(), for connections that listeners for applications accept from now on.
  // The listeners have to be prepared again. Below kApplicationLevel they begin with small buffers
  // and small segments.
  void set_memory_level(unsigned level) { memory_level_ = level; }
  unsigned memory_level() const { return memory_level_; }

 private:
  // `source`: to bind to, or nullptr.
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
  std::vector<std::uint32_t> kept_slots_;  // of another process's connections
  SourceAddresses sources_;
};

}  // namespace fairlead::relay
