#include "config/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/pnet_id.h"

namespace fairlead::config {
namespace {

constexpr bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

template <class T>
Parsed<T> within(T value, T min, T max, std::string_view text) {
  if (value < min) return wrong(text, "is too small");
  if (value > max) return wrong(text, "is too large");
  return value;
}

bool is_ring_size(std::size_t bytes) {
  return bytes >= kBufferBytesMin && (bytes & (bytes - 1)) == 0;
}

std::string too_long(std::string_view text, std::size_t max) {
  return in_quotes(text) + " has " + std::to_string(text.size()) + " characters, " +
         std::to_string(text.size() - max) + " too many";
}

}  // namespace

Parsed<unsigned> IntegerCodec::from(std::string_view text) const {
  const auto value = SMC_TRY(integer_from(text));
  const auto checked = SMC_TRY(within<std::uint64_t>(value, min, max, text));
  return static_cast<unsigned>(checked);
}

std::string IntegerCodec::allowed() const {
  return "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
}

Parsed<unsigned> PathMtuCodec::from(std::string_view text) {
  const auto value = SMC_TRY(integer_from(text));
  if (!allows(pod_setting("smc.path_mtu"), text)) return wrong(text, "is no path MTU");
  return static_cast<unsigned>(value);
}

Parsed<std::optional<unsigned>> GidIndexCodec::from(std::string_view text) {
  constexpr unsigned kIndexMax = 255;
  if (text == "auto") return std::optional<unsigned>();
  const auto index = SMC_TRY(IntegerCodec{0, kIndexMax}.from(text));
  return std::optional<unsigned>(index);
}

Parsed<std::optional<unsigned>> PartitionKeyCodec::from(std::string_view text) {
  constexpr unsigned kKeyMax = 0x7fff;
  constexpr std::string_view kHex = "0x";
  constexpr int kHexBase = 16;
  if (text == "auto") return std::optional<unsigned>();
  unsigned key = 0;
  const std::string_view digits = text.substr(std::min(text.size(), kHex.size()));
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), key, kHexBase);
  if (!text.starts_with(kHex) || error != std::errc() || end != text.data() + text.size() ||
      key == 0 || key > kKeyMax)
    return wrong(text, "is no partition key");
  return std::optional<unsigned>(key);
}

std::string PartitionKeyCodec::text(const Value& value) {
  if (!value) return "auto";
  std::array<char, 16> hex{};
  const int size = std::snprintf(hex.data(), hex.size(), "0x%x", *value);
  return {hex.data(), static_cast<std::size_t>(size)};
}

Parsed<std::uint16_t> PortCodec::from(std::string_view text) const {
  const auto value = SMC_TRY(IntegerCodec{1, 65535}.from(text));
  return static_cast<std::uint16_t>(value);
}

Parsed<Duration> DurationCodec::from(std::string_view text) const {
  Parsed<Duration> value = duration_from(text);
  if (!value || (zero_is_off && value->count() == 0)) return value;
  return within(*value, min, max, text);
}

std::string DurationCodec::allowed() const {
  return (zero_is_off ? "0 for never, or a time from " : "a time from ") + duration_text(min) +
         " to " + duration_text(max) + ", with unit us, ms, s, m or h";
}

Parsed<std::size_t> SizeCodec::from(std::string_view text) const {
  Parsed<std::size_t> value = size_from(text);
  if (!value || (zero_is_off && *value == 0)) return value;
  Parsed<std::size_t> checked = within(*value, min, max, text);
  if (checked && ring && !is_ring_size(*value))
    return wrong(text, "is not 16KiB times a power of two");
  return checked;
}

std::string SizeCodec::allowed() const {
  return std::string(zero_is_off ? "0 for off, or " : "") +
         (ring ? "16KiB times a power of two, from " : "a size from ") + size_text(min) + " to " +
         size_text(max) + ", in bytes or with unit KiB, MiB or GiB";
}

Parsed<SocketAddress> EndpointCodec::from(std::string_view text) const {
  const Result<SocketAddress> endpoint = SocketAddress::parse(text);
  if (!endpoint)
    return wrong(text, std::string("is not an IP address and port: ") + endpoint.error().what);
  if (endpoint->port() == 0 && !port_zero) return wrong(text, "has port 0");
  return *endpoint;
}

std::string EndpointCodec::allowed() const {
  return std::string("10.0.0.1:80 or \"[fd00::1]:80\", no host name, port ") +
         (port_zero ? "0 to 65535" : "1 to 65535");
}

Parsed<std::optional<SocketAddress>> OptionalEndpointCodec::from(std::string_view text) const {
  if (text.empty() && none) return std::optional<SocketAddress>();
  const auto endpoint = SMC_TRY(EndpointCodec{port_zero}.from(text));
  return std::optional<SocketAddress>(endpoint);
}

std::string OptionalEndpointCodec::allowed() const {
  return EndpointCodec{port_zero}.allowed() + (none ? ", or \"\" for none" : "");
}

Parsed<Cidr> CidrCodec::from(std::string_view text) {
  const Result<Cidr> cidr = Cidr::parse(text);
  if (!cidr) return wrong(text, std::string("is not a block of addresses: ") + cidr.error().what);
  return *cidr;
}

std::string CidrCodec::allowed() { return "10.0.0.0/8, \"fd00::/8\" or a single address"; }

Parsed<std::string> TextCodec::from(std::string_view text) const {
  std::string value(text);
  std::string wrong = check(value);
  if (!wrong.empty()) return tl::unexpected(std::move(wrong));
  return value;
}

std::string check_listener_name(std::string& text) {
  if (text.empty()) return "the name is empty";
  if (text.size() > kListenerNameCharsMax) return too_long(text, kListenerNameCharsMax);
  const bool legal = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return legal ? "" : in_quotes(text) + " has other characters than a-z, 0-9 and -";
}

std::string check_ueid(std::string& text) {
  if (text.empty()) return "the UEID is empty";
  if (text.size() > kUeidCharsMax) return too_long(text, kUeidCharsMax);
  if (!is_alphanumeric(text[0])) return in_quotes(text) + " does not begin with a letter or digit";
  const bool legal = std::all_of(text.begin(), text.end(),
                                 [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
  if (!legal) return in_quotes(text) + " has other characters than A-Z, 0-9, . and -";
  std::transform(text.begin(), text.end(), text.begin(), upper);
  return "";
}

std::string check_host_name(std::string& text) {
  if (text.size() > kHostNameCharsMax) return too_long(text, kHostNameCharsMax);
  return printable(text) ? "" : in_quotes(text) + " has blanks or characters that are not ASCII";
}

std::string check_device_name(std::string& text) {
  if (text.empty()) return "the name is empty";
  if (text.size() > kDeviceNameCharsMax) return too_long(text, kDeviceNameCharsMax);
  const bool legal = std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
  });
  return legal ? "" : in_quotes(text) + " has other characters than letters, digits, _, - and .";
}

std::string check_claim_name(std::string& text) {
  if (text.empty() || kubernetes::is_object_name(text)) return "";
  constexpr std::size_t kCharsMax = 253;
  if (text.size() > kCharsMax) return too_long(text, kCharsMax);
  return in_quotes(text) + " is not the name of an object of Kubernetes";
}

std::string check_socket_name(std::string& text) {
  if (text.empty()) return "";
  if (text[0] != '/' && text[0] != '@')
    return in_quotes(text) + " is neither an absolute path nor an abstract name";
  if (text.size() == 1) return in_quotes(text) + " has no name behind the first character";
  if (text.size() > kUnixPathCharsMax) return too_long(text, kUnixPathCharsMax);
  return printable(text) ? "" : in_quotes(text) + " has blanks or characters that are not ASCII";
}

std::string check_broker_name(std::string& text) {
  if (!text.starts_with('@')) return in_quotes(text) + " is not an abstract name";
  if (text.size() > kBrokerNameCharsMax) return too_long(text, kBrokerNameCharsMax);
  return check_socket_name(text);
}

std::string check_pnet_id(std::string& text) {
  if (text.size() > kPnetCharsMax) return too_long(text, kPnetCharsMax);
  std::string canonical = canonical_pnet(text);
  if (canonical.size() != text.size())
    return in_quotes(text) + " has other characters than A-Z and 0-9";
  text = std::move(canonical);
  return "";
}

}  // namespace fairlead::config
