#include "broker/shared_objects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace fairlead::broker {
namespace {

Result<FileDescriptor> make_memfd(const char* name, std::size_t size_bytes, int seals) {
  FileDescriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("memfd_create", errno);
  if (size_bytes != 0 && ::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return system_error("ftruncate", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return system_error("F_ADD_SEALS", errno);
  return fd;
}

Result<FileDescriptor> duplicate(const FileDescriptor& fd) {
  FileDescriptor copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("F_DUPFD_CLOEXEC", errno);
  return copy;
}

}  // namespace

Result<FileDescriptor> make_memory(const char* name, std::size_t size_bytes) {
  return make_memfd(name, size_bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

Result<FileDescriptor> make_blank() { return make_memfd("fairlead-buffer", 0, F_SEAL_SHRINK); }

Result<Bell> make_bell() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return system_error("socketpair", errno);
  Bell bell{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  const char mark = 1;
  if (::send(bell.watch.get(), &mark, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
    return system_error("mark of a bell", errno);
  // Nobody else has the ends yet, so nothing can have been sent before.
  if (::shutdown(bell.ring.get(), SHUT_RDWR) != 0 || ::shutdown(bell.watch.get(), SHUT_RDWR) != 0)
    return system_error("shutdown", errno);
  return bell;
}

Result<std::array<ChannelEnd, 2>> make_channel(std::size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kChannelBytesMax)
    return Error{Errc::kMalformed, "size of a channel"};
  std::array<ChannelEnd, 2> ends;
  FileDescriptor memory = SMC_TRY(make_memory("fairlead-channel", size_bytes));
  ends[1].memory = ForeignDescriptor(SMC_TRY(duplicate(memory)));
  ends[0].memory = std::move(memory);
  for (std::size_t side = 0; side < ends.size(); ++side) {
    Bell bell = SMC_TRY(make_bell());
    ends[side].ring = std::move(bell.ring);
    ends[1 - side].watch = std::move(bell.watch);
  }
  return ends;
}

}  // namespace fairlead::broker
