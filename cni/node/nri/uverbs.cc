#include "cni/node/nri/uverbs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/linux/files.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr std::string_view kNamePrefix = "uverbs";

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// `numbers` is the content of sysfs' file dev, "231:192".
std::optional<UverbsDevice> parse_device(std::string_view name, std::string rnic,
                                         std::string_view numbers) {
  UverbsDevice device{std::move(rnic)};
  const std::size_t colon = numbers.find(':');
  if (!name.starts_with(kNamePrefix) || device.rnic.empty() || colon == std::string_view::npos ||
      !parse_number(name.substr(kNamePrefix.size()), device.number) ||
      !parse_number(numbers.substr(0, colon), device.major) ||
      !parse_number(numbers.substr(colon + 1), device.minor))
    return std::nullopt;
  return device;
}

}  // namespace

std::vector<UverbsDevice> find_uverbs_devices(const std::string& sysfs) {
  std::vector<UverbsDevice> devices;
  const std::filesystem::path folder = std::filesystem::path(sysfs) / "class/infiniband_verbs";
  for (const std::string& name : names_in(folder)) {
    if (devices.size() == kUverbsDevicesMax) break;
    auto device =
        parse_device(name, first_line(folder / name / "ibdev"), first_line(folder / name / "dev"));
    if (device) devices.push_back(std::move(*device));
  }
  std::sort(devices.begin(), devices.end(),
            [](const UverbsDevice& a, const UverbsDevice& b) { return a.number < b.number; });
  return devices;
}

}  // namespace fairlead::cni::node::nri
