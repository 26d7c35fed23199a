#include "base/linux/record_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace fairlead {
namespace {

// What a record can bring at most (SCM_MAX_FD). What had no room here, the kernel would close on
// our thread.
constexpr std::size_t kDescriptorsOfRecord = 253;

void take_descriptors(msghdr& header, ReceivedRecord& into, DescriptorCloser& closer) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      ForeignDescriptor fd(FileDescriptor(number), closer);
      if (into.descriptors < into.fds.size()) into.fds[into.descriptors] = std::move(fd);
      ++into.descriptors;
    }
  }
}

}  // namespace

Result<void> send_record(int socket, std::span<const std::byte> record, std::span<const int> fds) {
  SMC_ASSERT(fds.size() <= kRecordDescriptorsMax, fds.size());
  iovec part{const_cast<std::byte*>(record.data()), record.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kRecordDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = ancillary;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
  // Both pass when the peer reads.
  if (errno == ENOBUFS || errno == ETOOMANYREFS) return Error{Errc::kWouldBlock, "sendmsg", errno};
  return system_error("sendmsg", errno);
}

Result<ReceivedRecord> receive_record(int socket, std::span<std::byte> into,
                                      DescriptorCloser& closer) {
  iovec part{into.data(), into.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kDescriptorsOfRecord * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof ancillary;
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  ssize_t count = ::recvmsg(socket, &header, kFlags);
  // Said once when the peer closed without reading all; what it sent before is still there.
  if (count < 0 && errno == ECONNRESET) count = ::recvmsg(socket, &header, kFlags);
  if (count < 0) return system_error("recvmsg", errno);
  ReceivedRecord received;
  received.size_bytes = static_cast<std::size_t>(count);
  take_descriptors(header, received, closer);
  if (count == 0) return Error{Errc::kPeerGone, "closed by the peer"};
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Error{Errc::kExhausted, "descriptor lost"};
  if ((header.msg_flags & MSG_TRUNC) != 0) return Error{Errc::kMalformed, "record too long"};
  return received;
}

void keep_few_in_flight(int socket) noexcept {
  const int least = 1;  // the kernel takes its minimum
  (void)::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
}

void refuse_descriptors(int socket) noexcept {
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, which C libraries do not know yet
  const int off = 0;
  (void)::setsockopt(socket, SOL_SOCKET, kPassRights, &off, sizeof off);
}

}  // namespace fairlead
