// Connections of applications whose connect(2) waits until the sidecar has dialled (redirect.h):
// what the sidecar does with its own sockets. Needs no right. Free functions, thread-safe.
#pragma once

namespace fairlead::bpf {

// Held at a time, by one listener, including for a minute those whose application has given up.
// Those beyond are connected at once. The kernel allows no more than net.core.somaxconn.
inline constexpr int kHeldMax = 4096;

// Of a listener, before or after listen(2). For listeners that strangers cannot reach, because they
// accept without a cookie. Without a redirect that holds connections, it has no effect.
void let_hold(int listener_fd);
// What arrives from now on is not held.
void stop_holding(int listener_fd);

// Whether connect(2) of the other end waits.
bool is_held(int accepted_fd);
// It succeeds, after one to three jiffies, or after as long again as it has waited. REQUIRES:
// is_held()
void answer_held(int accepted_fd);
// Whether the handshake has ended since: the application is connected, or has given up. What is
// sent before would be lost, and repeated 200 ms later.
bool handshake_over(int accepted_fd);
// It fails as if this error of a dial were its own, once the socket is reset. ETIMEDOUT, and what
// only the sidecar lacks: it goes on to wait, and so comes to the sidecar again.
void refuse_held(int accepted_fd, int error);

}  // namespace fairlead::bpf
