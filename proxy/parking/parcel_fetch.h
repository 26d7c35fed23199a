// A parcel that the keeper takes out of the proxy's table of descriptors, by pidfd_getfd(2), in
// place of being sent it. The kernel counts descriptors that are sent and not yet received for the
// user of the sender, and that user is the same in all pods: a stranger with as many in flight as
// RLIMIT_NOFILE allows keeps every sidecar of the node from sending one. Nobody counts a fetch.
//
// Needs Linux 5.6, the process within our PID namespace, and the right to trace it
// (CAP_SYS_PTRACE, or the same user).
//
// The calls may wait for as long as the process executes another program, which a hostile one can
// draw out. Use them on a thread that serves nobody else.
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

// A process at the other end of a Unix socket.
class PeerProcess {
 public:
  // The one that listens, for who is connected to it. `accepts`: whether the process with this
  // number is the one that is meant; numbers are used again. Errors: kNotFound, kPermission,
  // kUnsupported, others.
  static Result<PeerProcess> of(int socket, std::function<bool(int pid)> accepts);

  // It lives, and `accepts` says so again: it may have executed another program.
  bool is_still_accepted() const;

  // A copy of its descriptor with this number. Errors: kNotFound (EBADF), kPermission, others.
  Result<FileDescriptor> fetch(int number) const;
  // Whether fetch() is permitted, without anything fetched.
  bool may_fetch() const;

 private:
  PeerProcess(FileDescriptor handle, int pid, std::function<bool(int)> accepts)
      : handle_(std::move(handle)), pid_(pid), accepts_(std::move(accepts)) {}
  FileDescriptor handle_;  // a pidfd
  int pid_;
  std::function<bool(int)> accepts_;
};

// A sealed memory file with the numbers of the parcel's descriptors in this process.
Result<FileDescriptor> make_fetch_table(const Parcel& parcel);

class ParcelFetcher {
 public:
  // Descriptors that one advance() fetches.
  static constexpr std::size_t kFetchedAtOnce = 256;

  // `record`: kFetch, within the limits. `process` and `closer` outlive it.
  ParcelFetcher(const PeerProcess& process, const KeeperRecord& record, DescriptorCloser& closer)
      : process_(process), record_(record), closer_(closer) {}

  // The parcel when this was the last of it. Errors: kMalformed, and those of PeerProcess::fetch().
  Result<std::optional<Parcel>> advance();

 private:
  Result<void> begin();
  Result<ForeignDescriptor> fetch(std::uint32_t number) const;

  const PeerProcess& process_;
  KeeperRecord record_;
  DescriptorCloser& closer_;
  std::vector<std::uint32_t> numbers_;  // once begun
  std::optional<Parcel> parcel_;
};

}  // namespace fairlead::parking
