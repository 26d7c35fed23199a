// SMC_ASSERT is for our own bugs: it is on in every build and aborts with the values printed,
// because a proxy that goes on with a broken invariant corrupts somebody's data. Never use it for
// anything that a peer, the kernel or a user can cause.
#pragma once

#include <cstdint>
#include <type_traits>

namespace fairlead::detail {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line,
                                   const char* names, const std::uint64_t* values,
                                   unsigned count) noexcept;

// Called once before the message of a failed assertion is written, so that the lines before it come
// first. Must return in bounded time. nullptr for none.
using AbortHook = void (*)() noexcept;
void set_abort_hook(AbortHook hook) noexcept;

template <class T>
constexpr std::uint64_t assert_value(T value) noexcept {
  if constexpr (std::is_enum_v<T>)
    return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<T>>(value));
  else
    return static_cast<std::uint64_t>(value);
}

template <class... T>
[[noreturn]] void assertion_failed_with(const char* expression, const char* file, int line,
                                        const char* names, T... values) noexcept {
  const std::uint64_t list[sizeof...(T) + 1] = {assert_value(values)..., 0};
  assertion_failed(expression, file, line, names, list, sizeof...(T));
}

}  // namespace fairlead::detail

// SMC_ASSERT(condition, value…): the values are integers or enumerators, printed beside their
// names.
#define SMC_ASSERT(condition, ...)                                                        \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::fairlead::detail::assertion_failed_with(#condition, __FILE__, __LINE__,           \
                                                #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

#define SMC_UNREACHABLE() \
  ::fairlead::detail::assertion_failed("unreachable", __FILE__, __LINE__, "", nullptr, 0)
