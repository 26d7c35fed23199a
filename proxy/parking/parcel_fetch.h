// Fetches a parcel from the proxy's descriptor table with pidfd_getfd(2) instead of having it sent.
// The kernel counts descriptors that are sent and not yet received per user of the sender, and all
// sidecars have the same user. A stranger with RLIMIT_NOFILE descriptors in flight could keep every
// sidecar of the node from sending. Fetches are not counted.
//
// Needs Linux 5.6, the process within our PID namespace, and the right to trace it
// (CAP_SYS_PTRACE, or the same user).
//
// The calls may block while the process executes another program, which a hostile one can delay.
// Use them on a thread that serves nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "parking/keeper_record.h"
#include "parking/parcel.h"

namespace fairlead::parking {

// The process at the other end of a Unix socket.
class PeerProcess {
 public:
  // The process that listens at the other end of `socket`. `accepts` decides whether a process
  // number is the expected process, because numbers are reused. Errors: kNotFound, kPermission,
  // kUnsupported, others.
  static Result<PeerProcess> of(int socket, std::function<bool(int pid)> accepts);

  // True if the process lives and `accepts` agrees again: it may have executed another program.
  bool is_still_accepted() const;

  // A copy of the process's descriptor `number`. Errors: kNotFound (EBADF), kPermission, others.
  Result<FileDescriptor> fetch(int number) const;
  // True if fetch() is permitted; fetches nothing.
  bool may_fetch() const;

 private:
  PeerProcess(FileDescriptor handle, int pid, std::function<bool(int)> accepts)
      : handle_(std::move(handle)), pid_(pid), accepts_(std::move(accepts)) {}
  FileDescriptor handle_;  // a pidfd
  int pid_;
  std::function<bool(int)> accepts_;
};

// Creates a sealed memory file with the numbers of the parcel's descriptors in this process.
Result<FileDescriptor> make_fetch_table(const Parcel& parcel);

class ParcelFetcher {
 public:
  // Descriptors fetched per advance().
  static constexpr std::size_t kFetchedAtOnce = 256;

  // `record`: a kFetch within the limits. `process` and `closer` outlive this object.
  ParcelFetcher(const PeerProcess& process, const KeeperRecord& record, DescriptorCloser& closer)
      : process_(process), record_(record), closer_(closer) {}

  // Returns the parcel when it is complete. Errors: kMalformed, and those of PeerProcess::fetch().
  Result<std::optional<Parcel>> advance();

 private:
  Result<void> begin();
  Result<ForeignDescriptor> fetch(std::uint32_t number) const;

  const PeerProcess& process_;
  KeeperRecord record_;
  DescriptorCloser& closer_;
  std::vector<std::uint32_t> numbers_;  // set once begun
  std::optional<Parcel> parcel_;
};

}  // namespace fairlead::parking
