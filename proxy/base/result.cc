#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace fairlead {

std::string to_string(const Error& error) {
  std::string text = error.what;
  if (error.system != 0) {
    text += ": ";
    text += std::strerror(error.system);
  }
  return text;
}

Error system_error(const char* what, int error_number) noexcept {
  Errc code = Errc::kSystem;
  switch (error_number) {
    case EPERM:
    case EACCES:
      code = Errc::kPermission;
      break;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case ENOBUFS:
      code = Errc::kExhausted;
      break;
    case EAGAIN:
    case EINPROGRESS:
      code = Errc::kWouldBlock;
      break;
    case ENOENT:
    case ENODEV:
      code = Errc::kNotFound;
      break;
    case ETIMEDOUT:
      code = Errc::kTimedOut;
      break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
      code = Errc::kPeerGone;
      break;
    default:
      break;
  }
  return Error{code, what, error_number};
}

}  // namespace fairlead
