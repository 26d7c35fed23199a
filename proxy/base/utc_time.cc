#include "base/utc_time.h"

#include <array>
#include <cstdio>

namespace fairlead {
namespace {

std::string to_the_second(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts)};
}

}  // namespace

std::string utc_text(std::time_t time) { return to_the_second(time) + "Z"; }

std::string utc_text(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(time - seconds);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(rest.count()));
  return to_the_second(std::chrono::system_clock::to_time_t(seconds)) + fraction.data();
}

}  // namespace fairlead
