#include "base/command_words.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/kubernetes_names.h"

namespace fairlead {
namespace {

constexpr std::size_t kShownBytesMax = 80;
constexpr std::size_t kMessageBytesMax = 2048;
constexpr std::size_t kPathBytesMax = 4095;  // PATH_MAX, without the end
constexpr const char* kCut = "...(cut)";

// The next character of UTF-8, which is taken off `text`; nothing for malformed bytes.
std::optional<std::uint32_t> take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || text.size() < more) return std::nullopt;
  std::uint32_t character = first & (0x3fU >> more);
  for (std::size_t i = 0; i < more; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) return std::nullopt;
    character = character << 6U | (next & 0x3fU);
  }
  text.remove_prefix(more);
  constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[more] || character > 0x10ffff || surrogate) return std::nullopt;
  return character;
}

// Control characters, and those that make text look like another: marks of direction, and of width
// zero.
bool acts_on_terminal(std::uint32_t character) {
  const auto in = [character](std::uint32_t first, std::uint32_t last) {
    return character >= first && character <= last;
  };
  return in(0, 0x1f) || in(0x7f, 0x9f) || in(0x200b, 0x200f) || in(0x2028, 0x202e) ||
         in(0x2060, 0x206f) || character == 0x061c || character == 0xfeff;
}

const char* trouble_of(std::string_view word) {
  if (word.size() > kWordBytesMax) return "it is longer than 32 KiB";
  while (!word.empty()) {
    const auto character = take_character(word);
    if (!character) return "it is not UTF-8";
    if (acts_on_terminal(*character)) return "it has a control character";
  }
  return nullptr;
}

void append_escaped(std::string& into, char c) {
  if (c >= ' ' && c <= '~') {
    into += c;
    return;
  }
  char escape[5];
  std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
  into += escape;
}

}  // namespace

std::string refused_word(int count, const char* const* words) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word(words[i]);
    const char* const trouble = trouble_of(word);
    if (trouble == nullptr) continue;
    // An option in front, or in the same word.
    std::string name = "argument " + std::to_string(i);
    const std::string_view before(i > 1 ? words[i - 1] : "");
    const std::size_t equals = word.find('=');
    if (word.starts_with("--") && equals != std::string_view::npos && equals < kShownBytesMax &&
        trouble_of(word.substr(0, equals)) == nullptr)
      name = word.substr(0, equals);
    else if (before.starts_with("-") && before.size() > 1)
      name = before.substr(0, kShownBytesMax);
    return name + ": " + shown_word(word) + " is not allowed, because " + trouble +
           "; allowed: at most 32 KiB of UTF-8 without control characters";
  }
  return {};
}

std::string shown_word(std::string_view word) {
  std::string shown = "\"";
  for (const char c : word.substr(0, kShownBytesMax)) append_escaped(shown, c);
  if (word.size() > kShownBytesMax) shown += kCut;
  return shown + '"';
}

std::string shown_message(std::string_view message) {
  std::string shown;
  for (const char c : message.substr(0, kMessageBytesMax)) {
    if (c == '\n')
      shown += c;
    else
      append_escaped(shown, c);
  }
  if (message.size() > kMessageBytesMax) shown += kCut;
  return shown;
}

std::string object_name_trouble(const std::string& value) {
  if (kubernetes::is_object_name(value)) return {};
  return shown_word(value) +
         " is not allowed; allowed: 1 to 253 of a-z, 0-9, \"-\" and \".\", a letter or digit at "
         "both ends";
}

std::string path_trouble(const std::string& value) {
  if (value.size() <= kPathBytesMax) return {};
  return shown_word(value) + " is not allowed; allowed: a path of at most 4095 bytes";
}

std::string own_folder_trouble(const std::string& value) {
  bool allowed = value.starts_with('/') && value.find_first_not_of('/') != std::string::npos &&
                 value.size() <= kPathBytesMax;
  for (std::string_view rest = value; allowed && !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    allowed = part != "." && part != "..";
  }
  if (allowed) return {};
  return shown_word(value) +
         " is not allowed; allowed: an absolute path of at most 4095 bytes, without \".\" and "
         "\"..\", and not \"/\"";
}

std::string optional_name_trouble(const std::string& value) {
  return value.empty() ? std::string() : object_name_trouble(value);
}

}  // namespace fairlead
