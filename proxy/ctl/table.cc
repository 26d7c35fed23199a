#include "ctl/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/assert.h"

namespace fairlead::ctl {
namespace {

constexpr std::string_view kGap = "  ";
constexpr unsigned char kDelete = 0x7f;

void append_cell(std::string& line, std::string_view cell, std::size_t width, Align align) {
  const std::string padding(width - cell.size(), ' ');
  if (align == Align::kRight) line += padding;
  line += cell;
  if (align == Align::kLeft) line += padding;
}

// What the first byte of a character in UTF-8 gives of its number. 0xc0 and more begin two bytes,
// 0xe0 three, 0xf0 four.
std::uint32_t first_bits(unsigned char first) {
  if (first < 0xc0) return first;
  if (first < 0xe0) return first & 0x1fU;
  return first & (first < 0xf0 ? 0xfU : 0x7U);
}

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  SMC_ASSERT(cells.size() == columns_.size(), cells.size(), columns_.size());
  if (rows_.size() >= kRowsMax) {
    ++left_out_;
    return;
  }
  for (std::string& cell : cells) {
    constexpr std::string_view kCutMark = "...";
    const bool is_long = cell.size() > kCellCharsMax;
    cell = cell.empty() ? "-" : printable(std::string_view(cell).substr(0, kCellCharsMax));
    if (is_long) cell.replace(kCellCharsMax - kCutMark.size(), kCutMark.size(), kCutMark);
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = columns_[column].header.size();
    for (const auto& row : rows_) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  std::string text;
  const auto append_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      if (column > 0) line += kGap;
      append_cell(line, cell_of(column), widths[column], columns_[column].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  append_line([&](std::size_t column) { return columns_[column].header; });
  for (const auto& row : rows_)
    append_line([&](std::size_t column) { return std::string_view(row[column]); });
  if (left_out_ != 0) text += std::to_string(left_out_) + " more rows are left out\n";
  return text;
}

std::string printable(std::string_view text) {
  std::string clean(text);
  for (char& c : clean)
    if (c < ' ' || c > '~') c = '?';
  return clean;
}

std::string printable_lines(std::string_view lines) {
  std::string out;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    out += printable(lines.substr(at, end - at)) + '\n';
    at = end + 1;
  }
  return out;
}

std::string escaped_json(std::string_view json) {
  constexpr std::uint32_t kFirstPair = 0x10000;  // from there on, UTF-16 has two units
  const auto escape = [](std::uint32_t unit) { return print("\\u%04x", unit); };
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const auto first = static_cast<unsigned char>(json[at++]);
    if (first < kDelete) {
      out += first < ' ' && first != '\n' && first != '\t' ? ' ' : static_cast<char>(first);
      continue;
    }
    std::uint32_t character = first_bits(first);
    while (at < json.size() && (static_cast<unsigned char>(json[at]) & 0xc0U) == 0x80U)
      character = character << 6 | (static_cast<unsigned char>(json[at++]) & 0x3fU);
    if (character < kFirstPair) {
      out += escape(character);
    } else {
      const std::uint32_t rest = character - kFirstPair;
      out += escape(0xd800U + (rest >> 10 & 0x3ffU)) + escape(0xdc00U + (rest & 0x3ffU));
    }
  }
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr double kStep = 1024;
  constexpr double kShortMax = 10;  // below, one decimal tells something
  constexpr std::array kUnits = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 would round up to a fourth digit.
  for (; value >= kStep - 0.5 && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  if (unit == 0 || value >= kShortMax) return print("%.0f%s", value, kUnits[unit]);
  return print("%.1f%s", value, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  if (!(seconds > 0)) return "-";
  if (seconds < 1e-3) return print("%.0fus", seconds * 1e6);
  if (seconds < 1) return print("%.1fms", seconds * 1e3);
  if (seconds < kMinute) return print("%.1fs", seconds);
  const auto whole = static_cast<unsigned long long>(seconds);
  if (seconds < kHour) return print("%llum%02llus", whole / 60, whole % 60);
  if (seconds < kDay) return print("%lluh%02llum", whole / 3600, whole / 60 % 60);
  return print("%llud%02lluh", whole / 86400, whole / 3600 % 24);
}

}  // namespace fairlead::ctl
