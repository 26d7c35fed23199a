// Tells the redirect programs of the pod (redirect_connect.bpf.c) what they should know of
// destinations. Needs no right and no map: the programs hear connect(2) of the sidecar's own
// sockets (redirect.h). Calls take some microseconds. Not for two threads at once, but for
// direct_connections().
#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"
#include "bpf/redirect.h"

namespace fairlead::bpf {

class DestinationHints {
 public:
  // Forgets what an earlier process of the pod has told. Error: kUnsupported where no redirect
  // program hears this process.
  static Result<DestinationHints> open();

  // Connections to `to` do not come to the sidecar for direct_lifetime(level). `level` is 1 to
  // FAIRLEAD_REDIRECT_LEVELS. Error: kUnsupported once the programs are gone.
  Result<void> leave_alone(const SocketAddress& to, unsigned level);
  // Connections to `to` are not held for kAnswersLifetime, because it has just answered.
  Result<void> answers(const SocketAddress& to);
  // Connections come, and are held again.
  Result<void> forget(const SocketAddress& to);
  Result<void> forget_all();

  // Connections of the pod that were left alone since its programs were attached. Wraps around
  // after 2^48.
  Result<std::uint64_t> direct_connections() const;

 private:
  DestinationHints(FileDescriptor ipv4, FileDescriptor ipv6)
      : ipv4_(std::move(ipv4)), ipv6_(std::move(ipv6)) {}
  Result<void> tell(const SocketAddress& to, int word);

  FileDescriptor ipv4_;
  FileDescriptor ipv6_;  // none on a host without IPv6
};

inline Duration direct_lifetime(unsigned level) {
  return std::chrono::seconds(fairlead_direct_seconds(level));
}
inline constexpr Duration kAnswersLifetime =
    std::chrono::seconds(FAIRLEAD_REDIRECT_ANSWERS_SECONDS);

}  // namespace fairlead::bpf
