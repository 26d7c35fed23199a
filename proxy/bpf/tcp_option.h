// What any process, privileged or not, can find out about the SMC-R option on its TCP sockets. The
// option itself is written by an eBPF program (option_program.h) that we or somebody else attached.
// Free functions, thread-safe; sockets are the caller's and stay so.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace fairlead::bpf {

// Connecting side: true when the SYN/ACK carried the option. Ask once, when the connection stands:
// the answer is kept in the priority of the socket, which is set back to 0. False for every other
// reason too, a socket without option program among them.
bool peer_answered_option(int connected_fd);

// Accepting side: makes the kernel keep the SYN of every connection (TCP_SAVE_SYN). Before
// listen(2).
Result<void> save_syn(int listener_fd);

// True when the client's SYN carried the option. Ask once per accepted socket: reading the saved
// SYN frees it. False when nothing was saved: connections made from SYN cookies, and listeners
// without save_syn(). Errors: kExhausted for headers above kSavedSynBytesMax, kSystem.
Result<bool> syn_carried_option(int accepted_fd);

// The headers of an IPv4 SYN are at most 120 bytes. IPv6 extension headers can make more, but
// nobody honest sends so many.
inline constexpr std::size_t kSavedSynBytesMax = 4096;
inline constexpr std::size_t kExtensionHeadersMax = 8;

// The decision behind it, over the IPv4 or IPv6 header and the TCP header of a SYN. Bytes are not
// trusted: anything that is not a well-formed SYN up to the option has no option. The rule is the
// kernel's: kind 254, an even length of at least 6, and the magic.
bool syn_has_smc_option(std::span<const std::byte> ip_and_tcp_headers);

// True when a program that somebody attached to our cgroup writes the option for our sockets, both
// ways: connects to itself over loopback and looks. False as well when there is a program but the
// option is lost on loopback. Blocks, for `deadline` at most: for start-up. Errors: kTimedOut when
// a packet filter swallows the connection, or those of socket calls.
Result<bool> probe_external(Duration deadline = std::chrono::seconds(1));

}  // namespace fairlead::bpf
