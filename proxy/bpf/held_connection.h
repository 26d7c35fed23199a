// Connections of applications whose connect(2) waits until the sidecar has dialled (redirect.h):
// what the sidecar does with its own sockets. Needs no right. Free functions, thread-safe.
#pragma once

namespace fairlead::bpf {

// Held at a time, by one listener. Those beyond are connected at once.
inline constexpr int kHeldMax = 1024;

// Before listen(2). Without a redirect that holds connections, it has no effect.
void let_hold(int listener_fd);

// Whether connect(2) of the other end waits.
bool is_held(int accepted_fd);
// It succeeds, within the time that it has waited so far, or within a jiffy or two. A connection
// that is not held stays as it is.
void answer_held(int accepted_fd);
// It fails as if this error of a dial were its own, once the socket is reset. ETIMEDOUT: it goes on
// to wait, and so comes to the sidecar again.
void refuse_held(int accepted_fd, int error);

}  // namespace fairlead::bpf
