// How the value of one key is read from text, written as text, and described when it is wrong. One
// small class per kind of value; all have from(), text(), allowed() and the constant kText, which
// is true where the value is text for people, so that quotes around it are legal.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "config/scalar.h"

namespace fairlead::config {

struct IntegerCodec {
  using Value = unsigned;
  static constexpr bool kText = false;
  unsigned min, max;

  Parsed<unsigned> from(std::string_view text) const;
  static std::string text(unsigned value) { return std::to_string(value); }
  std::string allowed() const;
};

// Path MTU of an RNIC, 0 for that of the port.
struct PathMtuCodec {
  using Value = unsigned;
  static constexpr bool kText = false;

  static Parsed<unsigned> from(std::string_view text);
  static std::string text(unsigned value) { return std::to_string(value); }
  static std::string allowed() { return allowed_text(pod_setting("smc.path_mtu")); }
};

// A place in the GID table, "auto" for none in particular.
struct GidIndexCodec {
  using Value = std::optional<unsigned>;
  static constexpr bool kText = true;

  static Parsed<Value> from(std::string_view text);
  static std::string text(const Value& value) { return value ? std::to_string(*value) : "auto"; }
  static std::string allowed() { return "auto, or a whole number from 0 to 255"; }
};

// Nothing is "auto".
struct PartitionKeyCodec {
  using Value = std::optional<unsigned>;
  static constexpr bool kText = true;

  static Parsed<Value> from(std::string_view text);
  static std::string text(const Value& value);
  static std::string allowed() { return "auto, or a partition key from 0x1 to 0x7fff"; }
};

struct PortCodec {
  using Value = std::uint16_t;
  static constexpr bool kText = false;

  Parsed<std::uint16_t> from(std::string_view text) const;
  static std::string text(std::uint16_t value) { return std::to_string(value); }
  static std::string allowed() { return "a port from 1 to 65535"; }
};

struct BooleanCodec {
  using Value = bool;
  static constexpr bool kText = false;

  static Parsed<bool> from(std::string_view text) { return boolean_from(text); }
  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string allowed() { return "true or false"; }
};

struct DurationCodec {
  using Value = Duration;
  static constexpr bool kText = true;
  Duration min, max;
  bool zero_is_off = false;  // 0 is legal although below `min`

  Parsed<Duration> from(std::string_view text) const;
  static std::string text(Duration value) { return duration_text(value); }
  std::string allowed() const;
};

struct SizeCodec {
  using Value = std::size_t;
  static constexpr bool kText = true;
  std::size_t min, max;
  bool ring = false;         // 16 KiB times a power of two
  bool zero_is_off = false;  // 0 is legal although below `min`

  Parsed<std::size_t> from(std::string_view text) const;
  static std::string text(std::size_t value) { return size_text(value); }
  std::string allowed() const;
};

struct EndpointCodec {
  using Value = SocketAddress;
  static constexpr bool kText = true;
  bool port_zero = true;  // the kernel may choose

  Parsed<SocketAddress> from(std::string_view text) const;
  static std::string text(const SocketAddress& value) { return to_string(value); }
  std::string allowed() const;
};

struct OptionalEndpointCodec {
  using Value = std::optional<SocketAddress>;
  static constexpr bool kText = true;
  bool none = true;  // "" is legal, and means no endpoint
  bool port_zero = true;

  Parsed<Value> from(std::string_view text) const;
  static std::string text(const Value& value) { return value ? to_string(*value) : ""; }
  std::string allowed() const;
};

struct CidrCodec {
  using Value = Cidr;
  static constexpr bool kText = true;

  static Parsed<Cidr> from(std::string_view text);
  static std::string text(const Cidr& value) { return to_string(value); }
  static std::string allowed();
};

// For members of items, where none is written by leaving the key out.
struct OptionalCidrCodec {
  using Value = std::optional<Cidr>;
  static constexpr bool kText = true;

  static Parsed<Value> from(std::string_view text) {
    return CidrCodec::from(text).map([](const Cidr& cidr) { return Value(cidr); });
  }
  static std::string text(const Value& value) { return value ? to_string(*value) : ""; }
  static std::string allowed() { return CidrCodec::allowed(); }
};

// Text under a rule of its own. `check` returns what is wrong, or "", and may rewrite the text.
struct TextCodec {
  using Value = std::string;
  static constexpr bool kText = true;
  std::string (*check)(std::string& text);
  std::string_view description;

  Parsed<std::string> from(std::string_view text) const;
  static std::string text(const std::string& value) { return value; }
  std::string allowed() const { return std::string(description); }
};

// The rules of the texts of config.h.
std::string check_listener_name(std::string& text);
std::string check_ueid(std::string& text);  // upper-cases
std::string check_host_name(std::string& text);
std::string check_device_name(std::string& text);
std::string check_claim_name(std::string& text);
std::string check_socket_name(std::string& text);
std::string check_broker_name(std::string& text);
std::string check_pnet_id(std::string& text);  // upper-cases

// One of a few names, spelled as to_string() spells them.
template <class Enum, std::size_t N>
struct EnumCodec {
  using Value = Enum;
  static constexpr bool kText = true;
  std::array<Enum, N> values;

  Parsed<Enum> from(std::string_view text) const {
    std::array<std::string_view, N> names;
    for (std::size_t i = 0; i < N; ++i) {
      names[i] = to_string(values[i]);
      if (names[i] == text) return values[i];
    }
    const std::string_view meant = closest(text, names);
    return tl::unexpected(in_quotes(text) + " is unknown" +
                          (meant.empty() ? "" : ", did you mean " + in_quotes(meant) + "?"));
  }
  static std::string text(Enum value) { return std::string(to_string(value)); }
  std::string allowed() const {
    std::string list;
    for (std::size_t i = 0; i < N; ++i) {
      if (i > 0) list += i + 1 == N ? " or " : ", ";
      list += to_string(values[i]);
    }
    return list;
  }
};

template <class Enum, std::size_t N>
EnumCodec(std::array<Enum, N>) -> EnumCodec<Enum, N>;

}  // namespace fairlead::config
