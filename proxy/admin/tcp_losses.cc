#include "admin/tcp_losses.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace fairlead::admin {
namespace {

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The first word, which leaves `rest`.
std::string_view take_word(std::string_view& rest) {
  const std::size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  const std::size_t end = std::min(rest.find(' ', begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

}  // namespace

std::optional<std::uint64_t> find_net_counter(std::string_view text, std::string_view prefix,
                                              std::string_view name) {
  while (!text.empty()) {
    std::string_view names = take_line(text);
    std::string_view numbers = take_line(text);
    if (take_word(names) != prefix || take_word(numbers) != prefix) continue;
    for (std::string_view word = take_word(names); !word.empty(); word = take_word(names)) {
      const std::string_view number = take_word(numbers);
      if (word != name) continue;
      std::uint64_t value = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
      return value;
    }
  }
  return std::nullopt;
}

TcpLosses read_tcp_losses() {
  const std::string snmp = read_file("/proc/self/net/snmp");
  const std::string netstat = read_file("/proc/self/net/netstat");
  const auto extended = [&netstat](std::string_view name) {
    return find_net_counter(netstat, "TcpExt:", name).value_or(0);
  };
  return {.retransmitted = find_net_counter(snmp, "Tcp:", "RetransSegs").value_or(0),
          .timeouts = extended("TCPTimeouts"),
          .receive_drops = extended("TCPRcvQDrop"),
          .receive_prunes = extended("RcvPruned")};
}

}  // namespace fairlead::admin
