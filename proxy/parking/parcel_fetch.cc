#include "parking/parcel_fetch.h"
#include "base/linux/peer_credentials.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <span>
#include <utility>

namespace fairlead::parking {
namespace {

static_assert(std::endian::native == std::endian::little, "the table's numbers are little-endian");

constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD of Linux 6.5, missing in C libraries

constexpr Error kAnotherProgram{Errc::kMalformed, "parcel: of another program than the sidecar's"};

// A pidfd of the peer that cannot be that of a later process with the same number. Empty before
// Linux 6.5.
FileDescriptor peer_handle(int socket) {
  int handle = -1;
  socklen_t length = sizeof handle;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &handle, &length) != 0) handle = -1;
  return FileDescriptor(handle);
}

// EPERM: the process lives, but we may not signal it.
bool is_alive(const FileDescriptor& handle) {
  return ::syscall(SYS_pidfd_send_signal, handle.get(), 0, nullptr, 0) == 0 || errno == EPERM;
}

}  // namespace

Result<PeerProcess> PeerProcess::of(int socket, std::function<bool(int pid)> accepts) {
  const std::optional<ucred> peer = peer_credentials(socket);
  if (!peer) return system_error("SO_PEERCRED", errno);
  // 0: the process is outside of our PID namespace.
  if (peer->pid <= 0) return Error{Errc::kNotFound, "the process of the sidecar"};
  FileDescriptor handle = peer_handle(socket);
  if (!handle) handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer->pid, 0)));
  if (!handle) return system_error("pidfd_open", errno);
  PeerProcess process(std::move(handle), peer->pid, std::move(accepts));
  if (!process.is_still_accepted())
    return Error{Errc::kPermission, "another process than the sidecar's"};
  return process;
}

// While the process of the handle lives, no other process has its number.
bool PeerProcess::is_still_accepted() const { return accepts_(pid_) && is_alive(handle_); }

Result<FileDescriptor> PeerProcess::fetch(int number) const {
  FileDescriptor fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, handle_.get(), number, 0)));
  if (!fetched) return system_error("pidfd_getfd", errno);
  return fetched;
}

// The kernel checks rights first, and no process has a descriptor with this number.
bool PeerProcess::may_fetch() const {
  return ::syscall(SYS_pidfd_getfd, handle_.get(), INT_MAX, 0) < 0 && errno == EBADF;
}

Result<FileDescriptor> make_fetch_table(const Parcel& parcel) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(parcel.descriptors.size());
  for (const ForeignDescriptor& descriptor : parcel.descriptors)
    numbers.push_back(static_cast<std::uint32_t>(descriptor.get()));
  return seal_description(std::as_bytes(std::span(numbers)));
}

Result<ForeignDescriptor> ParcelFetcher::fetch(std::uint32_t number) const {
  if (number > INT_MAX) return Error{Errc::kMalformed, "parcel: no number of a descriptor"};
  FileDescriptor fetched = SMC_TRY(process_.fetch(static_cast<int>(number)));
  return ForeignDescriptor(std::move(fetched), closer_);
}

Result<void> ParcelFetcher::begin() {
  if (!process_.is_still_accepted()) return kAnotherProgram;
  Parcel table;
  table.description = SMC_TRY(fetch(record_.table));
  table.bytes = std::uint64_t{record_.count} * sizeof(std::uint32_t);
  const std::vector<std::byte> bytes = SMC_TRY(read_description(table));
  numbers_.resize(record_.count);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(numbers_)).begin());
  parcel_.emplace();
  parcel_->bytes = record_.bytes;
  parcel_->description = SMC_TRY(fetch(record_.description));
  return {};
}

Result<std::optional<Parcel>> ParcelFetcher::advance() {
  if (!parcel_) SMC_TRY(begin());
  for (std::size_t i = 0; i < kFetchedAtOnce && parcel_->descriptors.size() < numbers_.size(); ++i)
    parcel_->descriptors.push_back(SMC_TRY(fetch(numbers_[parcel_->descriptors.size()])));
  if (parcel_->descriptors.size() < numbers_.size()) return std::optional<Parcel>();
  // Otherwise the descriptors may be those of another program.
  if (!process_.is_still_accepted()) return kAnotherProgram;
  return std::exchange(parcel_, std::nullopt);
}

}  // namespace fairlead::parking
