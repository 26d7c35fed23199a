#include "config/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <vector>

namespace fairlead::config {
namespace {

constexpr std::size_t kQuotedCharsMax = 64;
constexpr std::size_t kEscapedCharsMax = 128;
constexpr std::size_t kComparedCharsMax = 64;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 5> kTimeUnits = {{{"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"h", 3'600'000'000'000}}};
constexpr std::array<Unit, 4> kSizeUnits = {
    {{"", 1}, {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Quantity {
  std::uint64_t number = 0;
  std::string_view unit;
};

Parsed<Quantity> split(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto digits = static_cast<std::size_t>(end - text.begin());
  if (digits == 0) return wrong(text, "does not begin with a number");
  const auto number = SMC_TRY(integer_from(text.substr(0, digits)));
  return Quantity{number, text.substr(digits)};
}

template <std::size_t N>
Parsed<std::uint64_t> scaled(std::string_view text, const Quantity& quantity,
                             const std::array<Unit, N>& units, std::uint64_t max) {
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& u) { return u.name == quantity.unit; });
  if (unit == units.end()) return wrong(text, "has the unknown unit " + in_quotes(quantity.unit));
  if (quantity.number > max / unit->factor) return wrong(text, "is too large");
  return quantity.number * unit->factor;
}

template <std::size_t N>
std::string text_of(std::uint64_t value, const std::array<Unit, N>& units) {
  if (value == 0) return "0";
  const auto unit = std::find_if(units.rbegin(), units.rend(),
                                 [&](const Unit& u) { return value % u.factor == 0; });
  const Unit& chosen = unit == units.rend() ? units.front() : *unit;
  return std::to_string(value / chosen.factor) + std::string(chosen.name);
}

void append_escaped(char c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte < 0x7f) {
    out += c;
    return;
  }
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

Parsed<std::uint64_t> integer_from(std::string_view text) {
  if (text.empty()) return wrong(text, "is empty");
  if (!std::all_of(text.begin(), text.end(), is_digit)) return wrong(text, "is not a whole number");
  if (text.size() > 1 && text[0] == '0') return wrong(text, "has a leading zero");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return wrong(text, "is too large");
  return value;
}

Parsed<bool> boolean_from(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return wrong(text, "is neither true nor false");
}

Parsed<Duration> duration_from(std::string_view text) {
  const auto quantity = SMC_TRY(split(text));
  if (quantity.unit.empty()) {
    if (quantity.number == 0) return Duration::zero();
    return wrong(text, "has no unit");
  }
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<Duration::rep>::max());
  const auto nanoseconds = SMC_TRY(scaled(text, quantity, kTimeUnits, kMax));
  return Duration(static_cast<Duration::rep>(nanoseconds));
}

std::string duration_text(Duration duration) {
  return text_of(static_cast<std::uint64_t>(duration.count()), kTimeUnits);
}

Parsed<std::size_t> size_from(std::string_view text) {
  const auto quantity = SMC_TRY(split(text));
  return scaled(text, quantity, kSizeUnits, std::numeric_limits<std::size_t>::max());
}

std::string size_text(std::size_t bytes) { return text_of(bytes, kSizeUnits); }

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedCharsMax)) {
    if (c == '"' || c == '\\') out += '\\';
    append_escaped(c, out);
  }
  out += text.size() > kQuotedCharsMax ? "\"…" : "\"";
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kEscapedCharsMax)) append_escaped(c, out);
  if (text.size() > kEscapedCharsMax) out += "…";
  return out;
}

tl::unexpected<std::string> wrong(std::string_view text, std::string_view what) {
  return tl::unexpected<std::string>(in_quotes(text) + " " + std::string(what));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  if (std::max(a.size(), b.size()) > kComparedCharsMax)
    return std::numeric_limits<std::size_t>::max();
  // Three rows of the usual table: the swap of neighbours looks back two.
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace fairlead::config
