// A server that returns what it receives, and a client that checks it: they show whether two pods
// reach each other, and give their proxies a connection to decide about. Blocking; for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::ctl {

inline constexpr std::size_t kEchoBytesMax = 1 << 30;
// Between two attempts of the client while the server does not answer.
inline constexpr Duration kEchoRetryInterval = std::chrono::milliseconds(500);

struct EchoResult {
  std::string peer;  // ADDR:PORT
  std::uint64_t bytes = 0;
  std::uint64_t attempts = 0;  // of the client
};

// A listening socket for all addresses, IPv6 and IPv4.
class EchoServer {
 public:
  // Port 0: the kernel chooses one. Errors: those of the socket.
  static Result<EchoServer> listen(std::uint16_t port);
  std::uint16_t port() const;

  // Serves one connection after the other, until one has sent bytes and got all of them back.
  // Connections that end before, as those of probes do, are passed over. Errors: kTimedOut.
  Result<EchoResult> serve_one(TimePoint deadline);

 private:
  explicit EchoServer(FileDescriptor listener) : listener_(std::move(listener)) {}

  FileDescriptor listener_;
};

// Sends `bytes` bytes (1 to kEchoBytesMax) to a server at `host`, a name or an address, and
// compares what comes back. Tries again until `deadline` while the name is unknown, the connection
// is refused or ends early. Errors: kMalformed where other bytes come back, kTimedOut with the last
// failure.
Result<EchoResult> echo_exchange(const std::string& host, std::uint16_t port, std::size_t bytes,
                                 TimePoint deadline);

}  // namespace fairlead::ctl
