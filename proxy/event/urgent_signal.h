// How a thread learns, without a system call for each read, that urgent data (MSG_OOB) may have
// come to one of its sockets.
//
// The kernel sends SIGURG to the owner of a socket before the urgent byte can be read, and a read
// that would begin at the urgent byte fails with EAGAIN while that signal is pending. So a thread
// that owns its sockets and finds the count below unchanged after a read knows that the read did
// not take an urgent byte for an ordinary one.
#pragma once

namespace fairlead::event {

// Makes the calling thread the owner of `fd`; it must be the thread that reads. Failures cost no
// byte: urgent data then arrives as ordinary data.
void own_urgent_signals(int fd);

// How many SIGURG the calling thread has got. It wraps.
unsigned urgent_signals();

}  // namespace fairlead::event
