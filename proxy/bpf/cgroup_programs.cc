#include "bpf/cgroup_programs.h"

#include <bpf/bpf.h>
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "bpf/refusal.h"

namespace fairlead::bpf {
namespace {

constexpr std::size_t kRefusalBytesMax = 512;
thread_local char first_complaint[kRefusalBytesMax];

// The first warning names the cause; those after it only say what came of it. Verifier logs arrive
// as one message of many lines.
int keep_first_complaint(libbpf_print_level level, const char* format, va_list arguments) noexcept {
  if (level != LIBBPF_WARN || first_complaint[0] != '\0') return 0;
  int length = std::vsnprintf(first_complaint, sizeof first_complaint, format, arguments);
  // Without privileges libbpf takes the kernel for an old one that charges programs to the memory
  // lock limit, and says so before it comes to the point.
  if (std::strstr(first_complaint, "bump RLIMIT_MEMLOCK") != nullptr) first_complaint[0] = '\0';
  return length;
}

}  // namespace

void collect_complaints() {
  // Once, because other threads may call libbpf at the same time.
  static const libbpf_print_fn_t before = libbpf_set_print(keep_first_complaint);
  (void)before;
  first_complaint[0] = '\0';
}

std::string refusal() {
  std::string_view line = first_complaint;
  line = line.substr(0, line.find('\n'));
  if (line.starts_with("libbpf: ")) line.remove_prefix(8);
  return std::string(line);
}

Error load_error(int error_number, const LoadComplaints& complaints) {
  switch (error_number) {
    case EPERM:
    case EACCES:
      return Error{Errc::kPermission, "eBPF refused: CAP_BPF and CAP_NET_ADMIN are needed",
                   error_number};
    case ENOSYS:
      return Error{Errc::kUnsupported, "kernel without eBPF", error_number};
    case EINVAL:
    case ENOTSUP:
    case E2BIG:
    case ESRCH:
      return Error{Errc::kUnsupported, complaints.too_old, error_number};
    default:
      return system_error(complaints.other, error_number);
  }
}

Error attach_error(int error_number) {
  switch (error_number) {
    case EPERM:
    case EACCES:
      return Error{Errc::kPermission, "cgroup refused the eBPF program", error_number};
    case EBADF:
      return Error{Errc::kUnsupported, "not a cgroup v2 directory", error_number};
    case EINVAL:
      return Error{Errc::kUnsupported, "kernel cannot attach eBPF links to cgroups (before 5.7)",
                   error_number};
    default:
      return system_error("attaching the eBPF program", error_number);
  }
}

Result<FileDescriptor> open_cgroup(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return system_error("opening the cgroup directory", errno);
  return directory;
}

Result<FileDescriptor> find_attached(int cgroup, bpf_attach_type type, const char* name) {
  std::array<__u32, kProgramsMax> ids{};
  __u32 flags = 0;
  __u32 count = ids.size();
  if (bpf_prog_query(cgroup, type, 0, &flags, ids.data(), &count) != 0) {
    if (errno == EINVAL || errno == ENOSYS)
      return Error{Errc::kUnsupported, "kernel without this kind of eBPF program", errno};
    return system_error("asking the cgroup for its eBPF programs", errno);
  }
  for (std::size_t i = 0; i < count && i < ids.size(); ++i) {
    FileDescriptor program(bpf_prog_get_fd_by_id(ids[i]));
    bpf_prog_info info{};
    __u32 length = sizeof info;
    if (program && bpf_obj_get_info_by_fd(program.get(), &info, &length) == 0 &&
        std::strcmp(info.name, name) == 0)
      return program;
  }
  return FileDescriptor();
}

Result<void> attach_without_link(int cgroup, bpf_attach_type type, const bpf_program* program) {
  if (bpf_prog_attach(bpf_program__fd(program), cgroup, type, BPF_F_ALLOW_MULTI) != 0)
    return attach_error(errno);
  return {};
}

Result<void> detach_all(int cgroup, bpf_attach_type type, const char* name) {
  // More than one, when attaching was killed half-way.
  for (std::size_t i = 0; i < kProgramsMax; ++i) {
    const FileDescriptor program = SMC_TRY(find_attached(cgroup, type, name));
    if (!program) break;
    const int rc = bpf_prog_detach2(program.get(), cgroup, type);
    if (rc != 0 && errno == ENOENT) break;  // attached by a link, whose owner will see to it
    if (rc != 0) return attach_error(errno);
  }
  return {};
}

}  // namespace fairlead::bpf
