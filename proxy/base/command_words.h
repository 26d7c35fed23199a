// Words of a command line: what a program refuses before it looks at them, and how it shows them.
// Scripts pass on what others chose, so a word may hold anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fairlead {

inline constexpr std::size_t kWordBytesMax = std::size_t{32} << 10;

// About the first word that is too long, not UTF-8, or has characters that a terminal acts on: a
// sentence that names the option in front of it. Empty if there is none.
std::string refused_word(int count, const char* const* words);

// In quotes, for a message: other characters than ASCII as \xNN, and the rest cut.
std::string shown_word(std::string_view word);
// A message that may contain words, for a terminal: lines of printable ASCII, cut.
std::string shown_message(std::string_view message);

// What is wrong with a value that has to be a name of an object of Kubernetes; empty if nothing is.
// The value of an optional one may be empty.
std::string object_name_trouble(const std::string& value);
std::string optional_name_trouble(const std::string& value);

// The same for a path that a program reads, and for a folder that it changes or removes: that has
// to be absolute, without "." and ".." in it, and not "/".
std::string path_trouble(const std::string& value);
std::string own_folder_trouble(const std::string& value);

}  // namespace fairlead
