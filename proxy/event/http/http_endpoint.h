// Where an HTTP server of Fairlead listens, or where a client finds it, in one spelling for both:
//   127.0.0.1:4590   [::1]:4590      TCP
//   unix:/run/fairlead/admin.sock    a socket in the file system; an absolute path alone will do
//   @fairlead-admin                  a socket in the abstract name space of the network namespace
// Host names are not looked up: an admin endpoint that depends on DNS would be missing exactly when
// somebody looks for a fault.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <variant>

#include "base/address.h"
#include "base/linux/unix_address.h"
#include "base/result.h"

namespace fairlead::event {

class HttpEndpoint {
 public:
  explicit HttpEndpoint(const SocketAddress& address) : where_(address) {}

  // Errors: kMalformed, and those of SocketAddress::parse().
  static Result<HttpEndpoint> parse(std::string_view text);

  bool is_tcp() const { return std::holds_alternative<SocketAddress>(where_); }
  bool is_unix_path() const { return !is_tcp() && !local().is_abstract(); }
  // REQUIRES: is_tcp()
  const SocketAddress& tcp() const { return std::get<SocketAddress>(where_); }
  // REQUIRES: !is_tcp()
  const UnixAddress& local() const { return std::get<UnixAddress>(where_); }
  // REQUIRES: is_unix_path()
  std::string path() const { return std::string(local().name()); }

  // For system calls. Valid as long as *this.
  const sockaddr* data() const { return is_tcp() ? tcp().data() : local().data(); }
  socklen_t size() const { return is_tcp() ? tcp().size() : local().size(); }

  // As parse() reads it.
  friend std::string to_string(const HttpEndpoint& endpoint);
  friend bool operator==(const HttpEndpoint& a, const HttpEndpoint& b) {
    return to_string(a) == to_string(b);
  }

 private:
  explicit HttpEndpoint(const UnixAddress& address) : where_(address) {}
  std::variant<SocketAddress, UnixAddress> where_;
};

}  // namespace fairlead::event
