// Tables in the manner of smcss and smcr: a header line, columns of equal width, two spaces
// between.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::ctl {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string_view header;  // outlives the table
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // A longer cell is cut. Beyond the rows, text() tells how many more there are.
  static constexpr std::size_t kCellCharsMax = 512;
  static constexpr std::size_t kRowsMax = 10'000;

  // REQUIRES: one cell per column. An empty cell prints as "-".
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Each line ends with a newline and has no spaces before it.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_out_ = 0;
};

// Names come from peers. Characters that a terminal acts upon or gives another width become "?":
// control characters, DEL, and everything outside ASCII, such as C1 and bidirectional controls.
std::string printable(std::string_view text);
// The same for each line of a text, which keeps its line ends; the last line gets one too.
std::string printable_lines(std::string_view lines);
// JSON of the same meaning in printable ASCII, tabs and line ends: other characters as \uXXXX.
// REQUIRES: valid JSON
std::string escaped_json(std::string_view json);

// 0, 512, 1.5Ki, 12Mi: three digits at most before the unit.
std::string bytes_text(std::uint64_t bytes);

// 250us, 1.8ms, 12.0s, 3m05s, 2h10m, 4d03h. Zero and less is "-".
std::string seconds_text(double seconds);

}  // namespace fairlead::ctl
