#include "cni/plugin/request.h"

#include <algorithm>
#include <array>
#include <utility>

namespace fairlead::cni {
namespace {

constexpr std::array<std::string_view, 4> kVersions = {"0.3.1", "0.4.0", "1.0.0", "1.1.0"};
constexpr const char* kAnnotationsCapability = "io.kubernetes.cri.pod-annotations";

struct VerbInfo {
  Verb verb;
  std::string_view name;
  std::string_view since;  // version of the specification that has it
};
constexpr std::array kVerbs = {
    VerbInfo{Verb::kAdd, "ADD", "0.3.1"},       VerbInfo{Verb::kDel, "DEL", "0.3.1"},
    VerbInfo{Verb::kCheck, "CHECK", "0.4.0"},   VerbInfo{Verb::kGc, "GC", "1.1.0"},
    VerbInfo{Verb::kStatus, "STATUS", "1.1.0"}, VerbInfo{Verb::kVersion, "VERSION", "0.3.1"},
};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string value_of(const StringMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string versions_text() {
  std::string text;
  for (const std::string_view version : kVersions)
    text += (text.empty() ? "" : ", ") + std::string(version);
  return text;
}

Outcome<const VerbInfo*> read_verb(const StringMap& environment) {
  const std::string name = value_of(environment, "CNI_COMMAND");
  for (const VerbInfo& info : kVerbs)
    if (info.name == name) return &info;
  return fail(Code::kEnvironment, "CNI_COMMAND: " + in_quotes(name) +
                                      " is not allowed; allowed: ADD, DEL, CHECK, GC, STATUS, "
                                      "VERSION");
}

Outcome<void> read_attachment(const StringMap& environment, Request& request) {
  request.attachment = {value_of(environment, "CNI_CONTAINERID"),
                        value_of(environment, "CNI_IFNAME")};
  request.netns = value_of(environment, "CNI_NETNS");
  if (!is_container_id(request.attachment.container_id))
    return fail(Code::kEnvironment,
                "CNI_CONTAINERID: " + in_quotes(request.attachment.container_id) +
                    " is not allowed; allowed: 1 to 128 of letters, digits, \"_\", \".\" and "
                    "\"-\", a letter or digit first");
  if (!is_interface_name(request.attachment.ifname))
    return fail(Code::kEnvironment, "CNI_IFNAME: " + in_quotes(request.attachment.ifname) +
                                        " is not allowed; allowed: the name of an interface, 1 to "
                                        "15 characters without blank, \"/\" and \":\"");
  if (request.netns.empty() && request.verb != Verb::kDel)
    return fail(Code::kEnvironment,
                "CNI_NETNS: \"\" is not allowed; allowed: the path of a network namespace");
  // Keys have any order; unknown ones belong to the runtime and are ignored.
  std::string_view rest = environment.contains("CNI_ARGS")
                              ? std::string_view(environment.find("CNI_ARGS")->second)
                              : std::string_view();
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (const std::size_t equals = pair.find('='); equals != std::string_view::npos)
      request.arguments.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return {};
}

Outcome<std::string> read_string(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::string();
  if (!found->is_string())
    return fail(Code::kConfig,
                std::string(key) + ": " + shown(*found) + " is not allowed; allowed: a string");
  return found->get<std::string>();
}

Outcome<void> read_version(const VerbInfo& verb, Request& request) {
  auto version = SMC_TRY(read_string(request.config, "cniVersion"));
  request.cni_version = version;
  const auto known = std::find(kVersions.begin(), kVersions.end(), version);
  if (known == kVersions.end())
    return fail(Code::kVersion, "cniVersion: " + in_quotes(version) +
                                    " is not allowed; allowed: " + versions_text());
  if (known < std::find(kVersions.begin(), kVersions.end(), verb.since))
    return fail(Code::kVersion, "cniVersion: " + in_quotes(version) + " has no " +
                                    std::string(verb.name) +
                                    "; allowed: " + std::string(verb.since) + " and later");
  return {};
}

Outcome<void> read_runtime_config(Request& request) {
  const auto found = request.config.find("runtimeConfig");
  if (found == request.config.end() || found->is_null()) return {};
  if (!found->is_object())
    return fail(Code::kConfig,
                "runtimeConfig: " + shown(*found) + " is not allowed; allowed: an object");
  if (const auto cgroup = found->find("cgroupPath"); cgroup != found->end() && !cgroup->is_null()) {
    if (!cgroup->is_string())
      return fail(Code::kConfig, "runtimeConfig.cgroupPath: " + shown(*cgroup) +
                                     " is not allowed; allowed: a string");
    request.cgroup_path = cgroup->get<std::string>();
  }
  const auto annotations = found->find(kAnnotationsCapability);
  if (annotations == found->end()) return {};
  request.annotations.emplace();
  if (annotations->is_null()) return {};  // how Go writes a pod that has none
  if (!annotations->is_object())
    return fail(Code::kConfig, std::string("runtimeConfig.") + kAnnotationsCapability + ": " +
                                   shown(*annotations) +
                                   " is not allowed; allowed: an object of strings");
  for (const auto& [key, value] : annotations->items()) {
    if (!value.is_string())
      return fail(Code::kConfig, "annotation " + in_quotes(key) + ": " + shown(value) +
                                     " is not allowed; allowed: a string");
    request.annotations->emplace(key, value.get<std::string>());
  }
  return {};
}

Outcome<void> read_previous_result(Request& request) {
  const auto found = request.config.find("prevResult");
  if (found != request.config.end() && !found->is_null()) {
    if (!found->is_object())
      return fail(Code::kConfig,
                  "prevResult: " + shown(*found) + " is not allowed; allowed: an object");
    request.previous_result = *found;
  } else if (request.verb == Verb::kAdd || request.verb == Verb::kCheck) {
    return fail(Code::kConfig,
                "prevResult: missing; allowed: the result of the plugin before; fairlead-cni "
                "stands behind the plugin that makes the interface");
  }
  return {};
}

// The specification says cni.dev/valid-attachments; libcni once said cni.dev/attachments as well.
Outcome<void> read_valid_attachments(Request& request) {
  bool seen = false;
  for (const char* key : {"cni.dev/valid-attachments", "cni.dev/attachments"}) {
    const auto list = request.config.find(key);
    if (list == request.config.end()) continue;
    seen = true;
    if (list->is_null()) continue;  // how Go writes an empty list
    if (!list->is_array())
      return fail(Code::kConfig, std::string(key) + ": " + shown(*list) +
                                     " is not allowed; allowed: a list of {containerID, ifname}");
    for (const Json& entry : *list) {
      const bool complete = entry.is_object() && entry.contains("containerID") &&
                            entry["containerID"].is_string() && entry.contains("ifname") &&
                            entry["ifname"].is_string();
      // If a malformed entry counted as "not valid", GC would remove the setup of a running pod.
      if (!complete)
        return fail(Code::kConfig, std::string(key) + ": " + shown(entry) +
                                       " is not allowed; allowed: {containerID, ifname}");
      request.valid.push_back(
          {entry["containerID"].get<std::string>(), entry["ifname"].get<std::string>()});
    }
  }
  if (!seen)
    return fail(Code::kConfig,
                "cni.dev/valid-attachments: missing; allowed: a list of {containerID, ifname}");
  return {};
}

}  // namespace

std::string_view to_string(Verb verb) {
  for (const VerbInfo& info : kVerbs)
    if (info.verb == verb) return info.name;
  return "";
}

std::string Request::argument(std::string_view name) const { return value_of(arguments, name); }

std::vector<std::string_view> supported_versions() { return {kVersions.begin(), kVersions.end()}; }

bool is_container_id(std::string_view text) {
  return !text.empty() && text.size() <= kContainerIdCharsMax && is_letter_or_digit(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-';
         });
}

bool is_interface_name(std::string_view text) {
  return !text.empty() && text.size() <= kInterfaceCharsMax && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c <= '~' && c != '/' && c != ':'; });
}

Outcome<Request> parse_request(const StringMap& environment, std::string_view input) {
  const auto verb = SMC_TRY(read_verb(environment));
  Request request;
  request.verb = verb->verb;
  const bool has_attachment =
      request.verb == Verb::kAdd || request.verb == Verb::kDel || request.verb == Verb::kCheck;
  if (has_attachment) SMC_TRY(read_attachment(environment, request));
  if (request.verb == Verb::kVersion) {
    // A caller of VERSION may not know any supported version.
    if (auto config = parse_json(input); config && config->is_object())
      if (auto version = read_string(*config, "cniVersion")) request.cni_version = *version;
    if (request.cni_version.empty()) request.cni_version = kVersions.back();
    return request;
  }
  auto config = parse_json(input);
  if (!config) return fail(Code::kDecode, "network configuration: " + config.error());
  if (!config->is_object())
    return fail(Code::kDecode,
                "network configuration: " + shown(*config) + " is not allowed; allowed: an object");
  request.config = std::move(*config);
  SMC_TRY(read_version(*verb, request));
  request.network = SMC_TRY(read_string(request.config, "name"));
  // Deletion of a pod must not fail. DEL needs none of the following fields.
  if (request.verb == Verb::kDel) return request;
  SMC_TRY(read_runtime_config(request));
  SMC_TRY(read_previous_result(request));
  if (request.verb == Verb::kGc) SMC_TRY(read_valid_attachments(request));
  return request;
}

}  // namespace fairlead::cni
