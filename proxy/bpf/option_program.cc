#include "bpf/option_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/handle.h"
#include "bpf/cgroup_path.h"
#include "smc_option.skel.h"

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

using Skeleton = Handle<smc_option_bpf, smc_option_bpf__destroy>;
using Link = Handle<bpf_link, bpf_link__destroy>;

Error load_error(int error_number) {
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
      return Error{Errc::kUnsupported, "kernel without TCP header options for eBPF (before 5.10)",
                   error_number};
    default:
      return system_error("loading the option program", error_number);
  }
}

Error attach_error(int error_number) {
  switch (error_number) {
    case EPERM:
    case EACCES:
      return Error{Errc::kPermission, "cgroup refused the option program", error_number};
    case EBADF:
      return Error{Errc::kUnsupported, "not a cgroup v2 directory", error_number};
    case EINVAL:
      return Error{Errc::kUnsupported, "kernel cannot attach eBPF links to cgroups (before 5.7)",
                   error_number};
    default:
      return system_error("attaching the option program", error_number);
  }
}

Result<FileDescriptor> open_cgroup(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return system_error("opening the cgroup directory", errno);
  return directory;
}

Result<Skeleton> load_skeleton(const uid_t* uid) {
  libbpf_set_print(keep_first_complaint);
  first_complaint[0] = '\0';
  Skeleton skeleton(smc_option_bpf__open());
  if (!skeleton) return load_error(errno);
  skeleton->rodata->by_uid = uid != nullptr;
  skeleton->rodata->proxy_uid = uid != nullptr ? *uid : 0;
  bpf_program__set_autoload(skeleton->progs.smc_mark, uid != nullptr);
  if (int rc = smc_option_bpf__load(skeleton.get()); rc != 0) return load_error(-rc);
  return skeleton;
}

// As in smc_option.bpf.c.
constexpr const char* kMarkerName = "smc_mark";
constexpr const char* kOptionName = "smc_option";
constexpr bpf_attach_type kMarkerType = BPF_CGROUP_INET_SOCK_CREATE;
constexpr std::size_t kProgramsMax = 64;  // the kernel's own limit for one cgroup

// The program of this name among those attached to the cgroup, or an empty descriptor.
Result<FileDescriptor> find_attached(int cgroup, bpf_attach_type type, const char* name) {
  std::array<__u32, kProgramsMax> ids{};
  __u32 flags = 0;
  __u32 count = ids.size();
  if (bpf_prog_query(cgroup, type, 0, &flags, ids.data(), &count) != 0) return load_error(errno);
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

}  // namespace

// In the order in which they are made: links die before the programs they hold.
struct OptionProgram::Attached {
  Skeleton skeleton;
  Link marker;  // empty unless attached for a uid
  Link option;
};

OptionProgram::OptionProgram(std::unique_ptr<Attached> attached) : attached_(std::move(attached)) {}
OptionProgram::OptionProgram(OptionProgram&&) noexcept = default;
OptionProgram& OptionProgram::operator=(OptionProgram&&) noexcept = default;
OptionProgram::~OptionProgram() = default;

Result<OptionProgram> OptionProgram::attach(const std::string& cgroup) {
  if (!cgroup.empty()) return load(cgroup, nullptr);
  std::string own = SMC_TRY(own_cgroup_path());
  return load(own, nullptr);
}

Result<OptionProgram> OptionProgram::attach_for_uid(const std::string& cgroup, uid_t uid) {
  return load(cgroup, &uid);
}

Result<OptionProgram> OptionProgram::load(const std::string& cgroup, const uid_t* uid) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  auto attached = std::make_unique<Attached>();
  attached->skeleton = SMC_TRY(load_skeleton(uid));
  smc_option_bpf& skeleton = *attached->skeleton;

  // The marker first: a socket that it misses would be without the option for its whole life.
  if (uid != nullptr) {
    attached->marker.reset(bpf_program__attach_cgroup(skeleton.progs.smc_mark, directory.get()));
    if (!attached->marker) return attach_error(errno);
  }
  attached->option.reset(bpf_program__attach_cgroup(skeleton.progs.smc_option, directory.get()));
  if (!attached->option) return attach_error(errno);
  return OptionProgram(std::move(attached));
}

Result<void> OptionProgram::request(int socket_fd) const {
  const __u32 mark = 1;
  int map = bpf_map__fd(attached_->skeleton->maps.requested);
  if (bpf_map_update_elem(map, &socket_fd, &mark, BPF_ANY) != 0)
    return system_error("requesting the TCP option for a socket", errno);
  return {};
}

Result<void> attach_lasting(const std::string& cgroup, uid_t uid) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  // The marker is attached last: where it is, all is.
  const FileDescriptor before = SMC_TRY(find_attached(directory.get(), kMarkerType, kMarkerName));
  if (before) return {};
  // A call that was killed half-way left an option that no marker asks for.
  SMC_TRY(detach_lasting(cgroup));
  const Skeleton skeleton = SMC_TRY(load_skeleton(&uid));
  const auto attach = [&](const bpf_program* program, bpf_attach_type type) {
    return bpf_prog_attach(bpf_program__fd(program), directory.get(), type, BPF_F_ALLOW_MULTI);
  };
  if (attach(skeleton->progs.smc_option, BPF_CGROUP_SOCK_OPS) != 0) return attach_error(errno);
  if (attach(skeleton->progs.smc_mark, kMarkerType) != 0) return attach_error(errno);
  return {};
}

Result<bool> is_attached(const std::string& cgroup) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  const FileDescriptor marker = SMC_TRY(find_attached(directory.get(), kMarkerType, kMarkerName));
  return static_cast<bool>(marker);
}

Result<void> detach_lasting(const std::string& cgroup) {
  const auto directory = open_cgroup(cgroup);
  if (!directory && directory.error().code == Errc::kNotFound) return {};
  if (!directory) return Error(directory.error());
  // More than one, when an attach_lasting() was killed half-way.
  const auto detach = [&](const char* name, bpf_attach_type type) -> Result<void> {
    for (std::size_t i = 0; i < kProgramsMax; ++i) {
      const FileDescriptor program = SMC_TRY(find_attached(directory->get(), type, name));
      if (!program) break;
      const int rc = bpf_prog_detach2(program.get(), directory->get(), type);
      if (rc != 0 && errno == ENOENT) break;  // attached by a link, whose owner will see to it
      if (rc != 0) return attach_error(errno);
    }
    return {};
  };
  SMC_TRY(detach(kMarkerName, kMarkerType));
  return detach(kOptionName, BPF_CGROUP_SOCK_OPS);
}

std::string refusal() {
  std::string_view line = first_complaint;
  line = line.substr(0, line.find('\n'));
  if (line.starts_with("libbpf: ")) line.remove_prefix(8);
  return std::string(line);
}

}  // namespace fairlead::bpf
