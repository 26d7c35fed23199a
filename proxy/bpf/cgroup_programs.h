// What the attachments of eBPF programs to cgroups share: opening the cgroup, finding and detaching
// programs by name, and libbpf's complaints. For the .cc files of this folder only. Thread-safe;
// collect_complaints() sets libbpf's process-wide log function.
#pragma once

#include <bpf/libbpf.h>

#include <cstddef>
#include <string>

#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::bpf {

inline constexpr std::size_t kProgramsMax = 64;  // the kernel's own limit for one cgroup

// Forgets the complaint of this thread and keeps the next one, for refusal().
void collect_complaints();

// A cgroup v2 directory. Errors: kNotFound, kPermission, kSystem.
Result<FileDescriptor> open_cgroup(const std::string& path);

// The program of this name among those attached to the cgroup, or an empty descriptor. The errno of
// a failed query is in Error::system.
Result<FileDescriptor> find_attached(int cgroup, bpf_attach_type type, const char* name);

// Beside programs of others. Without a link: it stays until it is detached or the cgroup is gone.
Result<void> attach_without_link(int cgroup, bpf_attach_type type, const bpf_program* program);

// Every program of this name, except those that are attached by a link: they belong to the link.
Result<void> detach_all(int cgroup, bpf_attach_type type, const char* name);

// What load_error() says of one kind of programs.
struct LoadComplaints {
  const char* too_old;  // the kernel does not know their hooks
  const char* other;    // what was being done
};
// Of loading, by errno.
Error load_error(int error_number, const LoadComplaints& complaints);
// Of attaching, by errno.
Error attach_error(int error_number);

}  // namespace fairlead::bpf
