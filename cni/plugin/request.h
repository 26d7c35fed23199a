// Request of a runtime to the plugin: environment and standard input of one call, checked and as
// values. Pure. Source: CNI specification 1.1, "CNI operations", and the conventions page for
// runtimeConfig.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/plugin/json_text.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni {

enum class Verb : std::uint8_t { kAdd, kDel, kCheck, kGc, kStatus, kVersion };
std::string_view to_string(Verb verb);

using StringMap = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t kContainerIdCharsMax = 128;
inline constexpr std::size_t kInterfaceCharsMax = 15;

// One interface of one container; GC lists them.
struct Attachment {
  std::string container_id;
  std::string ifname;
  friend auto operator<=>(const Attachment&, const Attachment&) = default;
};

struct Request {
  Verb verb = Verb::kVersion;
  std::string cni_version;
  std::string network;    // "name" of the configuration
  Attachment attachment;  // ADD, DEL, CHECK
  std::string netns;      // path; empty for a DEL after the namespace has gone
  StringMap arguments;    // CNI_ARGS
  // runtimeConfig["io.kubernetes.cri.pod-annotations"]; absent when the runtime passes none.
  std::optional<StringMap> annotations;
  std::string cgroup_path;              // runtimeConfig["cgroupPath"], or empty
  std::optional<Json> previous_result;  // prevResult
  std::vector<Attachment> valid;        // GC
  Json config = Json::object();         // all of standard input

  // Of CNI_ARGS; empty when there is none of that name.
  std::string argument(std::string_view name) const;
};

// `environment`: the CNI_* variables. `input`: standard input. VERSION takes an empty input.
Outcome<Request> parse_request(const StringMap& environment, std::string_view input);

// Supported versions of the specification, oldest first.
std::vector<std::string_view> supported_versions();

bool is_container_id(std::string_view text);
bool is_interface_name(std::string_view text);

}  // namespace fairlead::cni
