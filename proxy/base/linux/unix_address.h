// Names of Unix sockets, as people write them and as system calls take them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead {

class UnixAddress {
 public:
  // A path, or "@name" in the abstract namespace of the network namespace, which lives as long as
  // its socket. Errors: kMalformed for a name that is empty, too long, or holds a NUL.
  static Result<UnixAddress> parse(std::string_view name);
  // The same for a path that may begin with "@".
  static Result<UnixAddress> of_path(std::string_view path) { return make(path, false); }

  bool is_abstract() const { return abstract_; }
  // The path, or what follows "@".
  std::string_view name() const { return {address_.sun_path + (abstract_ ? 1 : 0), name_bytes_}; }

  // For system calls. Valid as long as *this.
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address_); }
  // A path has a NUL behind it, an abstract name has one before it.
  socklen_t size() const {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_bytes_ + 1);
  }

 private:
  UnixAddress() = default;
  static Result<UnixAddress> make(std::string_view name, bool abstract);

  sockaddr_un address_{};
  std::size_t name_bytes_ = 0;
  bool abstract_ = false;
};

}  // namespace fairlead
