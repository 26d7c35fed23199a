// What any process, privileged or not, can find out about the SMC-R option on its TCP sockets. The
// option itself is written by an eBPF program (option_program.h) that we or somebody else attached.
// Free functions, thread-safe; sockets are the caller's and stay so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace fairlead::bpf {

// What the other end says of itself in its SYN or SYN/ACK.
enum class Announced : std::uint8_t {
  kNothing,
  kSmc,
  kFrames,             // SMC-R, and that the connection may begin in frames (docs/wire.md)
  kFramesWithWindows,  // in a SYN/ACK: the same, and that the server knows windows
};

// Connecting side: asks the option program to announce frames too. Before connect(2), and of a
// listener before listen(2). Where no program acts, it does nothing that peer_answered_option() or
// stop_asking_for_frames() does not take back.
void ask_for_frames(int fd);
// Of a listener, after listen(2): accepted sockets would inherit what remains of it.
void stop_asking_for_frames(int listener_fd);

// Whether SYN/ACKs of all listeners on `port` announce frames from now on. An option program keeps
// that by port, from the latest listen(2) on. So a socket listens there for a moment, on a loopback
// address that nobody uses, beside others with SO_REUSEPORT. `request`: asks a program of our own
// for the option of a socket; empty where it is somebody else's. Errors: those of socket calls.
Result<void> announce_frames(std::uint16_t port, bool announce,
                             const std::function<Result<void>(int fd)>& request);

// Connecting side: what the SYN/ACK carried, when the connection stands: the answer is the priority
// of the socket. One that asked for frames and got no answer is set back to 0. Nothing for every
// other reason too, a socket without option program among them.
Announced peer_answered_option(int connected_fd);

// Accepting side: makes the kernel keep the SYN of every connection (TCP_SAVE_SYN). Before
// listen(2).
Result<void> save_syn(int listener_fd);

// What the client's SYN carried. Ask once per accepted socket: reading the saved
// SYN frees it. Nothing when nothing was saved: connections made from SYN cookies, and listeners
// without save_syn(). Errors: kExhausted for headers above kSavedSynBytesMax, kSystem.
Result<Announced> syn_carried_option(int accepted_fd);

// The headers of an IPv4 SYN are at most 120 bytes. IPv6 extension headers can make more, but
// nobody honest sends so many.
inline constexpr std::size_t kSavedSynBytesMax = 4096;
inline constexpr std::size_t kExtensionHeadersMax = 8;

// The decision behind it, over the IPv4 or IPv6 header and the TCP header of a SYN. Bytes are not
// trusted: anything that is not a well-formed SYN up to the option has no option. The rule is the
// kernel's: kind 254, an even length of at least 6, and the magic. Of frames: a length of 6.
Announced announced_in_syn(std::span<const std::byte> ip_and_tcp_headers);

// True when a program that somebody attached to our cgroup writes the option for our sockets, both
// ways: connects to itself over loopback and looks. False as well when there is a program but the
// option is lost on loopback. Blocks, for `deadline` at most: for start-up. Errors: kTimedOut when
// a packet filter swallows the connection, or those of socket calls.
Result<bool> probe_external(Duration deadline = std::chrono::seconds(1));

}  // namespace fairlead::bpf
