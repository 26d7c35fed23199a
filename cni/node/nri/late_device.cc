#include "cni/node/nri/late_device.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/linux/files.h"
#include "base/linux/handle.h"
#include "bpf/device_permission.h"
#include "cni/plugin/pod_cgroup.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr const char* kFolder = "infiniband";
constexpr mode_t kFolderMode = 0755;
constexpr std::size_t kProcFileBytesMax = 64 << 10;
constexpr std::size_t kContainerIdCharsMin = 12;

// Resolves any path only below `folder`. `more`: further RESOLVE_ flags.
FileDescriptor open_within(int folder, const char* path, std::uint64_t more = 0) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | more;
  return FileDescriptor(static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how)));
}

Result<std::string> read_at(int folder, const char* name) {
  const FileDescriptor file(::openat(folder, name, O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("reading about the container's process", errno);
  std::string text;
  std::array<char, 4096> part;
  while (text.size() < kProcFileBytesMax) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0) return system_error("reading about the container's process", errno);
    if (count == 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// All four user ids of proc(5): a process that changes its user is not the sidecar.
bool runs_as(const std::string& status, std::uint32_t uid) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream numbers(line.substr(4));
    int same = 0;
    for (std::uint32_t number = 0; numbers >> number;) same += number == uid ? 1 : -4;
    return same == 4;
  }
  return false;
}

// An open folder of /proc ensures that the number still identifies the same process.
Result<FileDescriptor> open_process(const LateDevices& wanted, pid_t number,
                                    const std::string& procfs) {
  const std::string path = procfs + "/" + std::to_string(number);
  FileDescriptor process(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!process) return system_error("process of the container", errno);
  const std::string cgroup = SMC_TRY(read_at(process.get(), "cgroup"));
  if (wanted.container_id.size() < kContainerIdCharsMin ||
      cgroup.find(wanted.container_id) == std::string::npos)
    return Error{Errc::kWrongState, "the process belongs to another container"};
  if (!runs_as(SMC_TRY(read_at(process.get(), "status")), wanted.owner))
    return Error{Errc::kWrongState, "the process runs as another user than sidecars do"};
  return process;
}

Result<std::string> container_cgroup(const LateDevices& wanted, const std::string& root) {
  const std::string pod = SMC_TRY(find_pod_cgroup(root, wanted.pod_uid));
  std::error_code ignored;
  for (const std::string& name : names_in(pod)) {
    const std::filesystem::path path = std::filesystem::path(pod) / name;
    if (name.find(wanted.container_id) != std::string::npos &&
        std::filesystem::is_directory(path, ignored))
      return path.string();
  }
  return Error{Errc::kNotFound, "cgroup of the container"};
}

bool is_ours(int folder, const std::string& name, dev_t number, std::uint32_t owner) {
  struct stat present {};
  return ::fstatat(folder, name.c_str(), &present, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISCHR(present.st_mode) && present.st_rdev == number && present.st_uid == owner;
}

// Taken from the cgroup if the runtime did not pass a process.
Result<pid_t> process_of(const LateDevices& wanted, const std::string& cgroup) {
  if (wanted.process > 0) return wanted.process;
  pid_t process = 0;
  if (std::ifstream(cgroup + "/cgroup.procs") >> process && process > 0) return process;
  return Error{Errc::kNotFound, "process of the container"};
}

// Creates the node under another name first, because the sidecar must not see a node that it may
// not open yet.
Result<void> make_node(int folder, const UverbsDevice& device, std::uint32_t owner) {
  const std::string name = device_path(device).substr(std::string_view("/dev/infiniband/").size());
  const std::string fresh = "." + name;
  const dev_t number = ::makedev(device.major, device.minor);
  (void)::unlinkat(folder, fresh.c_str(), 0);  // left by an agent that was killed here
  if (::mknodat(folder, fresh.c_str(), S_IFCHR | kDeviceMode, number) != 0)
    return system_error("making the device node", errno);
  if (::fchownat(folder, fresh.c_str(), owner, owner, AT_SYMLINK_NOFOLLOW) == 0 &&
      ::renameat2(folder, fresh.c_str(), folder, name.c_str(), RENAME_NOREPLACE) == 0)
    return {};
  const Error error = system_error("making the device node", errno);
  (void)::unlinkat(folder, fresh.c_str(), 0);
  if (error.system != EEXIST) return error;
  if (is_ours(folder, name, number, owner)) return {};
  return Error{Errc::kWrongState, "another node has the device's place"};
}

// Checks that the folder was created by the runtime: on a tmpfs, writable for root only. A volume
// of the pod is another file system, or is writable for its users.
Result<void> check_runtimes(int folder, const char* what) {
  struct statfs file_system {};
  struct stat status {};
  if (::fstatfs(folder, &file_system) != 0 || ::fstat(folder, &status) != 0)
    return system_error(what, errno);
  const bool good = file_system.f_type == TMPFS_MAGIC && status.st_uid == 0 &&
                    (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return good ? Result<void>() : Error{Errc::kWrongState, what};
}

Result<FileDescriptor> open_device_folder(int process) {
  const FileDescriptor root(::openat(process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error("root of the container", errno);
  const FileDescriptor dev = open_within(root.get(), "dev");
  if (!dev) return system_error("/dev of the container", errno);
  SMC_TRY(check_runtimes(dev.get(), "/dev of the container is not of the runtime"));
  const bool made = ::mkdirat(dev.get(), kFolder, kFolderMode) == 0;
  if (!made && errno != EEXIST) return system_error("making /dev/infiniband", errno);
  // EXDEV for something that the pod has mounted there.
  FileDescriptor folder = open_within(dev.get(), kFolder, RESOLVE_NO_XDEV);
  if (!folder) return system_error("/dev/infiniband of the container", errno);
  if (made && ::fchmod(folder.get(), kFolderMode) != 0)
    return system_error("mode of /dev/infiniband", errno);
  SMC_TRY(check_runtimes(folder.get(), "/dev/infiniband of the container is not of the runtime"));
  return folder;
}

void raise_memlock(pid_t process, std::uint64_t bytes) {
  rlimit limit{};
  if (::prlimit(process, RLIMIT_MEMLOCK, nullptr, &limit) != 0 || limit.rlim_cur >= bytes) return;
  const rlimit raised{bytes, bytes};
  (void)::prlimit(process, RLIMIT_MEMLOCK, &raised, nullptr);
}

}  // namespace

Result<void> give_late(const LateDevices& wanted, const LatePlaces& places) {
  const std::string cgroup = SMC_TRY(container_cgroup(wanted, places.cgroup_root));
  const pid_t number = SMC_TRY(process_of(wanted, cgroup));
  const FileDescriptor process = SMC_TRY(open_process(wanted, number, places.procfs));
  const FileDescriptor folder = SMC_TRY(open_device_folder(process.get()));
  for (const UverbsDevice& device : wanted.devices)
    SMC_TRY(bpf::permit_device(cgroup, {device.major, device.minor}));
  if (wanted.memlock_bytes) raise_memlock(number, *wanted.memlock_bytes);
  // Must be the last step: as soon as the node exists, the sidecar opens the device.
  for (const UverbsDevice& device : wanted.devices)
    SMC_TRY(make_node(folder.get(), device, wanted.owner));
  return {};
}

}  // namespace fairlead::cni::node::nri
