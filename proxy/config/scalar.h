// Single values as text, both ways. A parser takes the whole text or says in words what is wrong
// with it; what would be right is said by whoever knows the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace fairlead::config {

template <class T>
using Parsed = Result<T, std::string>;

// Decimal digits only: no sign, blank, underscore, fraction, hexadecimal or leading zero.
Parsed<std::uint64_t> integer_from(std::string_view text);

// true or false.
Parsed<bool> boolean_from(std::string_view text);

// A whole number and us, ms, s, m or h; 0 needs no unit. Beyond about 292 years: too large.
Parsed<Duration> duration_from(std::string_view text);
// In the largest unit that leaves no remainder. REQUIRES: not negative, whole microseconds.
std::string duration_text(Duration duration);

// A whole number of bytes, or one followed by KiB, MiB or GiB.
Parsed<std::size_t> size_from(std::string_view text);
std::string size_text(std::size_t bytes);

// The text in double quotes, cut to 64 characters, with everything that is not printable ASCII
// escaped: fit for a terminal, whatever somebody put into the file.
std::string in_quotes(std::string_view text);

// The text cut to 128 characters, with everything that is not printable ASCII escaped. For keys and
// for messages of a library, which may repeat bytes of the file.
std::string escaped(std::string_view text);

// The error of a parser: the text, quoted, and what is wrong with it.
tl::unexpected<std::string> wrong(std::string_view text, std::string_view what);

// The candidate that `text` is probably a slip of, or "". At most a third of its letters differ.
template <class Strings>
std::string_view closest(std::string_view text, const Strings& candidates);

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
// The largest number there is when one of them has more than 64 characters.
std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Strings>
std::string_view closest(std::string_view text, const Strings& candidates) {
  std::string_view best;
  std::size_t best_distance = text.size() / 3 + 1;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace fairlead::config
