// What an input led to, by name. replay_test collects the names of a corpus, and fails when one is
// missing that the corpus was collected for (outcomes.txt). Under libFuzzer nothing is collected.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace fairlead::fuzz {

using Outcomes = std::set<std::string, std::less<>>;

// Where names go; null for nowhere. Owned by replay_test.
inline Outcomes* collected_outcomes = nullptr;

inline void reached(std::string_view outcome) {
  if (collected_outcomes != nullptr) collected_outcomes->emplace(outcome);
}

// The sentence without what an input has put into it: "" for a text in quotes, 0 for a number.
// What is allowed is left out too.
inline std::string shape_of(std::string_view sentence) {
  constexpr std::size_t kCharsMax = 80;
  std::string shape;
  sentence = sentence.substr(0, sentence.find("; allowed"));
  for (std::size_t at = 0; at < sentence.size() && shape.size() < kCharsMax; ++at) {
    const char c = sentence[at];
    if (c >= '0' && c <= '9') {
      if (!shape.ends_with('0')) shape += '0';
      continue;
    }
    shape += c;
    if (c != '"') continue;
    while (at + 1 < sentence.size() && sentence[at + 1] != '"')
      at += sentence[at + 1] == '\\' ? 2U : 1U;
    ++at;
    shape += '"';
  }
  return shape;
}

// An input was refused, and `what` says so to people: bounded, and without characters that a
// terminal acts on. An ellipsis stands for what was cut.
inline void check_printable(std::string_view what, std::size_t chars_max = 2048) {
  SMC_ASSERT(!what.empty());
  SMC_ASSERT(what.size() <= chars_max, what.size());
  constexpr std::string_view kEllipsis = "…";
  while (!what.empty()) {
    const bool is_cut = what.starts_with(kEllipsis);
    SMC_ASSERT(is_cut || (what.front() >= ' ' && what.front() <= '~'), what.front());
    what.remove_prefix(is_cut ? kEllipsis.size() : 1);
  }
}

inline void reached_refusal(std::string_view what) { reached("refused: " + shape_of(what)); }

}  // namespace fairlead::fuzz
