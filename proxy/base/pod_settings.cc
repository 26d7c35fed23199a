#include "base/pod_settings.h"

#include <charconv>
#include <vector>

namespace fairlead {
namespace {

std::vector<std::string> listed_values(const PodSetting& setting) {
  std::vector<std::string> values;
  for (const std::string_view choice : setting.choices)
    if (!choice.empty()) values.emplace_back(choice);
  for (unsigned size = setting.limits.min; setting.limits.doubling && size <= setting.limits.max;
       size *= 2)
    values.push_back(std::to_string(size));
  return values;
}

}  // namespace

bool allows(const PodSetting& setting, std::string_view text) {
  const std::vector<std::string> listed = listed_values(setting);
  if (std::find(listed.begin(), listed.end(), text) != listed.end()) return true;
  if (!setting.is_number()) return false;
  if (text == "0") return setting.lowest() == 0;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && text.front() != '0' &&
         !setting.limits.doubling && number >= setting.limits.min && number <= setting.limits.max;
}

std::string allowed_text(const PodSetting& setting) {
  std::string text = "a whole number from " + std::to_string(setting.limits.min) + " to " +
                     std::to_string(setting.limits.max);
  if (const auto listed = listed_values(setting); !listed.empty()) {
    text = listed.front();
    for (std::size_t i = 1; i < listed.size(); ++i)
      text += (i + 1 == listed.size() ? " or " : ", ") + listed[i];
  }
  return setting.limits.zero.empty() ? text
                                     : text + ", or 0 for " + std::string(setting.limits.zero);
}

std::string variable_of(std::string_view key) {
  std::string name = "FAIRLEAD_";
  for (const char c : key)
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

}  // namespace fairlead
