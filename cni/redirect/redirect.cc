#include "cni/redirect/redirect.h"

#include <net/if.h>

#include <map>
#include <utility>

#include "cni/redirect/packet_filter.h"

namespace fairlead::cni {
namespace {

std::string with_refusal(const Error& error) {
  const std::string more = bpf::refusal();
  return to_string(error) + (more.empty() ? "" : ": " + more);
}

Outcome<Redirect> install_programs(const bpf::RedirectRules& rules, const ProgramPlace& place) {
  if (!place.cgroup)
    return fail(Code::kRedirect, "redirect programs: " + to_string(place.cgroup.error()));
  const bpf::RedirectPlace there{*place.cgroup, place.pin};
  auto reading = bpf::attach_redirect_programs(there, rules);
  if (reading) return Redirect{std::move(*reading), there.cgroup, ""};
  const std::string what = with_refusal(reading.error());
  // Those of an earlier call may be left.
  (void)bpf::detach_redirect_programs(there);
  return fail(Code::kRedirect, "redirect programs: " + what);
}

}  // namespace

Outcome<void> check_redirect(RedirectChoice choice) {
  if (choice != RedirectChoice::kPacketFilter) {
    const Result<void> loaded = bpf::check_redirect_programs();
    if (loaded) return {};
    if (choice == RedirectChoice::kPrograms)
      return fail(Code::kRedirect, "redirect programs: " + with_refusal(loaded.error()));
  }
  SMC_TRY(read_packet_filter());  // of the node's own namespace
  return {};
}

Outcome<Redirect> install_redirect(const bpf::RedirectRules& rules, const ProgramPlace& place,
                                   RedirectChoice choice, bool table) {
  std::string reason = "redirect is nftables";
  if (choice != RedirectChoice::kPacketFilter) {
    auto programs = install_programs(rules, place);
    if (programs && table) (void)remove_packet_filter();
    if (programs || choice == RedirectChoice::kPrograms) return programs;
    reason = programs.error().message;
  } else if (place.cgroup) {
    (void)bpf::detach_redirect_programs({*place.cgroup, place.pin});
  }
  auto reading = SMC_TRY(install_packet_filter(rules));
  return Redirect{std::move(reading), "", std::move(reason)};
}

Outcome<bpf::RedirectReading> read_redirect(const bpf::RedirectPlace& place) {
  if (place.cgroup.empty()) return read_packet_filter();
  auto reading = bpf::read_redirect_programs(place);
  if (!reading) return fail(Code::kRedirect, place.cgroup + ": " + to_string(reading.error()));
  return std::move(*reading);
}

bpf::RedirectReading without_gone_interfaces(bpf::RedirectReading reading) {
  std::erase_if(reading, [](const std::string& line) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) return false;
    const std::string name = line.substr(slash + 1, line.rfind(' ') - slash - 1);
    return ::if_nametoindex(name.c_str()) == 0;
  });
  return reading;
}

std::string difference(const bpf::RedirectReading& expected, const bpf::RedirectReading& found) {
  const auto name_of = [](const std::string& text) { return text.substr(0, text.rfind(' ')); };
  const auto by_name = [&](const bpf::RedirectReading& reading) {
    std::map<std::string, std::string> all;
    for (const std::string& text : reading) all.emplace(name_of(text), text);
    return all;
  };
  const auto before = by_name(expected);
  const auto now = by_name(found);
  std::string text;
  const auto add = [&text](const std::string& name, const char* what) {
    text += (text.empty() ? "" : ", ") + name + " " + what;
  };
  for (const auto& [name, content] : before) {
    const auto same = now.find(name);
    if (same == now.end())
      add(name, "is missing");
    else if (same->second != content)
      add(name, "has changed");
  }
  for (const auto& [name, content] : now)
    if (!before.contains(name)) add(name, "was added");
  return text;
}

}  // namespace fairlead::cni
