#include "bpf/option_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>
#include <utility>

#include "base/linux/handle.h"
#include "bpf/cgroup_path.h"
#include "bpf/cgroup_programs.h"
#include "bpf/smc_option.h"
#include "bpf/tcp_option.h"
#include "smc_option.skel.h"

namespace fairlead::bpf {
namespace {

using Skeleton = Handle<smc_option_bpf, smc_option_bpf__destroy>;
using Link = Handle<bpf_link, bpf_link__destroy>;

constexpr LoadComplaints kComplaints{
    .too_old = "kernel without TCP header options for eBPF (before 5.10)",
    .other = "loading the option program"};

Result<Skeleton> load_skeleton(const uid_t* uid) {
  collect_complaints();
  Skeleton skeleton(smc_option_bpf__open());
  if (!skeleton) return load_error(errno, kComplaints);
  skeleton->rodata->by_uid = uid != nullptr;
  skeleton->rodata->proxy_uid = uid != nullptr ? *uid : 0;
  skeleton->rodata->program_bits =
      static_cast<__u32>(std::random_device{}() % FAIRLEAD_PRIORITY_PROGRAMS)
      << FAIRLEAD_PRIORITY_PROGRAM_SHIFT;
  bpf_program__set_autoload(skeleton->progs.smc_mark, uid != nullptr);
  if (int rc = smc_option_bpf__load(skeleton.get()); rc != 0) return load_error(-rc, kComplaints);
  return skeleton;
}

// As in smc_option.bpf.c.
constexpr const char* kMarkerName = "smc_mark";
constexpr const char* kOptionName = "smc_option";
constexpr bpf_attach_type kMarkerType = BPF_CGROUP_INET_SOCK_CREATE;

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

Result<void> OptionProgram::request_for_connection(int socket_fd, bool frames) const {
  const __u32 wanted =
      frames ? FAIRLEAD_PRIORITY_FRAMES_REQUESTED : FAIRLEAD_PRIORITY_SMC_REQUESTED;
  const __u32 priority = wanted | attached_->skeleton->rodata->program_bits;
  if (::setsockopt(socket_fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority) == 0) return {};
  // CAP_NET_ADMIN was dropped after attach().
  if (frames) ask_for_frames(socket_fd);
  return request(socket_fd);
}

Result<void> attach_lasting(const std::string& cgroup, uid_t uid) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  // The marker is attached last: where it is, all is.
  const FileDescriptor before = SMC_TRY(find_attached(directory.get(), kMarkerType, kMarkerName));
  if (before) return {};
  // A call that was killed half-way left an option that no marker asks for.
  SMC_TRY(detach_lasting(cgroup));
  const Skeleton skeleton = SMC_TRY(load_skeleton(&uid));
  SMC_TRY(attach_without_link(directory.get(), BPF_CGROUP_SOCK_OPS, skeleton->progs.smc_option));
  return attach_without_link(directory.get(), kMarkerType, skeleton->progs.smc_mark);
}

Result<bool> is_attached(const std::string& cgroup) {
  const FileDescriptor directory = SMC_TRY(open_cgroup(cgroup));
  const FileDescriptor marker = SMC_TRY(find_attached(directory.get(), kMarkerType, kMarkerName));
  if (!marker) return false;
  const FileDescriptor option =
      SMC_TRY(find_attached(directory.get(), BPF_CGROUP_SOCK_OPS, kOptionName));
  return static_cast<bool>(option);
}

Result<void> detach_lasting(const std::string& cgroup) {
  const auto directory = open_cgroup(cgroup);
  if (!directory && directory.error().code == Errc::kNotFound) return {};
  if (!directory) return Error(directory.error());
  SMC_TRY(detach_all(directory->get(), kMarkerType, kMarkerName));
  return detach_all(directory->get(), BPF_CGROUP_SOCK_OPS, kOptionName);
}

}  // namespace fairlead::bpf
