// Errors as values. Whatever the peer, the kernel, a device or a file can cause is a Result; our
// own bugs are SMC_ASSERT (assert.h). An Error is small, owns nothing and never allocates, so it
// can be made on the data path. It is logged once, where behaviour changes; the pure layers only
// return it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace fairlead {

enum class Errc : std::uint8_t {
  kTruncated,    // fewer bytes than the field needs
  kMalformed,    // a field holds a value that the format forbids
  kUnsupported,  // well formed, but not something we speak
  kExhausted,    // a named limit, or memory, is used up
  kMemoryLimit,  // memory.limit is used up
  kNotFound,     // the thing named does not exist (rkey, path, link, device)
  kPermission,   // the kernel refused: EPERM, EACCES
  kWouldBlock,   // not now; the caller will be told when
  kPeerGone,     // the other process, port or host has vanished
  kPeerRefused,  // the peer says no
  kTimedOut,     // a named wait has expired
  kWrongState,   // legal elsewhere, not here and now
  kSystem,       // any other system call failure; see Error::system
};

// `what` names the field or the call and must be a string literal. `system` is errno, or 0.
struct Error {
  Errc code = Errc::kSystem;
  const char* what = "";
  int system = 0;

  friend bool operator==(const Error& a, const Error& b) {
    return a.code == b.code && a.system == b.system && std::string_view(a.what) == b.what;
  }
};

// "what: strerror" for people. Allocates: for start-up and for logging only.
std::string to_string(const Error& error);

// Maps EPERM/EACCES, ENOMEM/EMFILE/ENFILE/ENOSPC, EAGAIN, ENOENT, ETIMEDOUT and the connection
// errors; the rest is kSystem.
Error system_error(const char* what, int error_number) noexcept;

// A value, or why there is none. E is Error where it can be: on the data path, and wherever a
// program tells errors apart. Sentences for people are Result<T, std::string>.
//
// tl::expected lacks a class-level nodiscard; the derivation adds it, so that a dropped error is a
// compile error under -Werror.
template <class T, class E = Error>
class [[nodiscard]] Result : public tl::expected<T, E> {
 public:
  using Base = tl::expected<T, E>;
  using Base::Base;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(const Error& error) requires std::is_same_v<E, Error> : Base(tl::unexpect, error) {}
  Result(Base base) : Base(std::move(base)) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace fairlead

// Gives the value of a Result, or returns its error from the enclosing function, whose Result has
// the same E. GNU statement expression: g++ and clang both have it.
#define SMC_TRY(...)                                                                 \
  (__extension__({                                                                   \
    auto smc_try_result = (__VA_ARGS__);                                             \
    if (!smc_try_result) return ::tl::unexpected(std::move(smc_try_result).error()); \
    ::fairlead::detail::take(std::move(smc_try_result));                             \
  }))

namespace fairlead::detail {
template <class T, class E>
T take(tl::expected<T, E>&& result) {
  return std::move(*result);
}
template <class E>
void take(tl::expected<void, E>&&) {}
}  // namespace fairlead::detail
