// The kernel's buffers of TCP sockets: how large they are, and who chooses that. Free functions,
// thread-safe; sockets are the caller's. All best effort: what a kernel does not know leaves its
// defaults in place.
#pragma once

#include <cstddef>

namespace fairlead::event {

// The kernel then keeps about so many bytes for `fd` in each direction instead of what it thinks
// fit. Sockets inherit it from their listener.
void bound_memory(int fd, int bytes);

// The same for one direction alone.
void bound_receive_memory(int fd, int bytes);
void bound_send_memory(int fd, int bytes);

// Writes are accepted only while the kernel has sent all bytes that were written before.
void bound_unsent(int fd, bool bound);

// After bound_memory(): the kernel makes both buffers larger from now on, as it thinks fit. False
// before Linux 5.15, which does not know this.
bool tune_memory(int fd);
// The most that it makes of both together (tcp_rmem, tcp_wmem); 0 if that is unknown. Read once.
std::size_t tuned_memory_max_bytes();

// After bound_memory(): the kernel chooses again, and begins with what it takes for new sockets.
// False before Linux 5.15, which does not know this; nothing changes then.
bool leave_memory_to_kernel(int fd);

// The kernel announces a window of at most so many bytes. Sockets inherit it from their listener.
void bound_window(int fd, int bytes);
inline constexpr int kWindowBytesMax = 65535 << 14;  // of TCP

}  // namespace fairlead::event
