// How many descriptors the process may have, and the last of them. What a stranger can ask for
// again and again (connections, channels) leaves the last ones alone, so that probes, repairs and
// what runs get theirs. The kernel gives the lowest free number: a high one tells that many are in
// use.
#pragma once

#include <cstddef>

namespace fairlead {

// Raises the soft limit to the hard one; the soft limit is what it is for the sake of select(2).
void raise_descriptor_limit() noexcept;

// Makes the process' table of descriptors large enough for `count` of them, or for its limit. To be
// called before there are threads. While there are, Linux grows the table behind an RCU grace
// period: the thread that asked for one descriptor too many stands still for tens of milliseconds,
// or for seconds on a busy machine.
void make_room_for_descriptors(std::size_t count) noexcept;

// So many numbers are kept twice over, or an eighth of the limit where that is less.
inline constexpr int kDescriptorsKept = 64;

enum class DescriptorUse {
  kNew,    // begins something: a connection that was accepted, a channel, a pipe
  kBegun,  // goes on with it: the other side of a connection
};

// True when `fd` is too high to be used for that. What is new leaves twice kDescriptorsKept
// numbers, what was begun leaves them once.
bool descriptors_scarce(int fd, DescriptorUse use) noexcept;
// The same for each connection: mostly without a system call. May go by a limit that was lowered by
// others a tenth of a second ago, for descriptors below those that were asked about before.
bool descriptors_scarce_lately(int fd, DescriptorUse use) noexcept;

}  // namespace fairlead
