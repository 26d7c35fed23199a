#include "base/linux/unix_address.h"

namespace fairlead {

Result<UnixAddress> UnixAddress::parse(std::string_view name) {
  const bool abstract = name.starts_with('@');
  return make(name.substr(abstract ? 1 : 0), abstract);
}

Result<UnixAddress> UnixAddress::make(std::string_view name, bool abstract) {
  UnixAddress made;
  if (name.empty()) return Error{Errc::kMalformed, "the name of the UNIX socket is empty"};
  if (name.find('\0') != std::string_view::npos)
    return Error{Errc::kMalformed, "the name of the UNIX socket holds a NUL"};
  if (name.size() + 1 > sizeof made.address_.sun_path)
    return Error{Errc::kMalformed, "the name of the UNIX socket is too long"};
  made.address_.sun_family = AF_UNIX;
  name.copy(made.address_.sun_path + (abstract ? 1 : 0), name.size());
  made.name_bytes_ = name.size();
  made.abstract_ = abstract;
  return made;
}

}  // namespace fairlead
