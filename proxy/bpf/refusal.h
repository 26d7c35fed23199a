// Why the kernel or libbpf refused an eBPF program.
#pragma once

#include <string>

namespace fairlead::bpf {

// What libbpf first complained about in the last attachment that this thread tried, one line; empty
// when it did not. It never prints to stderr by itself. Thread-safe.
std::string refusal();

}  // namespace fairlead::bpf
