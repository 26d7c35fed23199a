// Error of a failed CNI command: CNI specification 1.1, section "Error". Runtimes show `message` to
// the user, so it names the key, the value and what is allowed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::cni {

// 1 to 99 are defined by the specification, 100 and above by Fairlead.
enum class Code : unsigned {
  kVersion = 1,
  kEnvironment = 4,
  kInput = 5,
  kDecode = 6,
  kConfig = 7,
  kTryLater = 11,
  kNotAvailable = 50,
  kNetns = 100,
  kRedirect = 101,
  kPnet = 102,
  kRnic = 103,
  kHandOver = 104,
  kState = 105,
  kOption = 106,
  kClientAddress = 107,
};

struct CodeInfo {
  Code code;
  std::string_view meaning;
};
// Every code that the plugin returns, for the reference.
std::span<const CodeInfo> code_table();

struct PluginError {
  Code code;
  std::string message;
  std::string details = {};
};

template <class T>
using Outcome = Result<T, PluginError>;

inline tl::unexpected<PluginError> fail(Code code, std::string message, std::string details = {}) {
  return tl::unexpected(PluginError{code, std::move(message), std::move(details)});
}

}  // namespace fairlead::cni
