#include "base/hand_over.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/pnet_id.h"

namespace fairlead {
namespace {

constexpr std::string_view kAccessKey = "access";

bool is_device_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Takes what comes before `separator` off the front.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

constexpr std::string_view kGidKey = "gid";
constexpr std::string_view kAnyGid = "auto";
constexpr std::size_t kMappedPrefixBytes = 12;
constexpr std::size_t kAccessBytes = kAccessKey.size() + kAccessCharsMax + 2;  // with ';' and '='

constexpr std::string_view kModeKey = "mode";
constexpr std::string_view kEncryptedKey = "crypt";
constexpr std::size_t kEncryptedBytesMin = kEncryptedKey.size() + 5;  // ";crypt=all"

// Without the parts of that key.
std::string without(std::string_view alias, std::string_view key) {
  std::string text;
  while (!alias.empty()) {
    const std::string_view part = take(alias, ';');
    if (part.substr(0, part.find('=')) == key) continue;
    if (!text.empty()) text += ';';
    text += part;
  }
  return text;
}

// Of a version to come: what it means is not known, so nothing may pass by RDMA.
EncryptedPaths paths_of(std::string_view value) {
  return parse_encrypted_paths(value).value_or(EncryptedPaths{true, {}});
}

EncryptedPaths paths_in(std::string_view alias) {
  while (!alias.empty()) {
    std::string_view value = take(alias, ';');
    if (take(value, '=') == kEncryptedKey) return paths_of(value);
  }
  return {};
}

// As an address of its own family.
std::string gid_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = gid.is_ipv4_mapped();
  const std::uint8_t* bytes = gid.bytes.data() + (v4 ? kMappedPrefixBytes : 0);
  (void)::inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return text.data();
}

std::optional<Gid> parse_gid(std::string_view word) {
  const std::string text(word);
  Gid gid;
  if (::inet_pton(AF_INET, text.c_str(), gid.bytes.data() + kMappedPrefixBytes) == 1) {
    gid.bytes[10] = gid.bytes[11] = 0xff;
    return gid;
  }
  if (::inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

bool parse_gids(std::string_view value, std::vector<Gid>& gids) {
  if (value == kAnyGid) return true;
  while (!value.empty()) {
    const std::optional<Gid> gid = parse_gid(take(value, ','));
    if (!gid) return false;
    gids.push_back(*gid);
  }
  return true;
}

bool is_access(std::string_view text) {
  return !text.empty() && text.size() <= kAccessCharsMax &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

}  // namespace

std::string to_string(const RnicPortName& name) {
  return name.device + "/" + std::to_string(name.port.value);
}

std::optional<RnicPortName> parse_rnic_port(std::string_view text) {
  const std::string_view device = take(text, '/');
  if (device.empty() || device.size() > kRnicNameCharsMax ||
      !std::all_of(device.begin(), device.end(), is_device_char))
    return std::nullopt;
  std::uint8_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return RnicPortName{std::string(device), PortNumber{port}};
}

std::string to_alias(const HandOver& note) {
  std::string text(kAliasPrefix);
  if (note.pnet.empty())
    return with_encrypted(with_access(text + "mode=none", note.access), note.encrypted);
  text += "pnet=" + note.pnet + ";mode=shared;gid=";
  std::string rnics;
  for (const RnicPortName& rnic : note.rnics)
    rnics += (rnics.empty() ? ";rnic=" : ",") + to_string(rnic);
  // Half of them would forbid the others.
  constexpr std::size_t kKeptFree = kAccessBytes + kEncryptedBytesMin;
  if (text.size() + kAnyGid.size() + rnics.size() + kKeptFree > kAliasBytesMax) rnics.clear();
  std::string gids;
  for (const Gid& gid : note.gids) gids += (gids.empty() ? "" : ",") + gid_text(gid);
  const bool fit =
      !gids.empty() && text.size() + gids.size() + rnics.size() + kKeptFree <= kAliasBytesMax;
  text += (fit ? gids : std::string(kAnyGid)) + rnics;
  return with_encrypted(with_access(text, note.access), note.encrypted);
}

std::optional<HandOver> parse_alias(std::string_view alias) {
  if (!alias.starts_with(kAliasPrefix)) return std::nullopt;
  alias.remove_prefix(kAliasPrefix.size());
  HandOver note;
  while (!alias.empty()) {
    std::string_view value = take(alias, ';');
    const std::string_view key = take(value, '=');
    if (key == "pnet") {
      note.pnet = canonical_pnet(value);
      if (note.pnet.empty()) return std::nullopt;
    } else if (key == kAccessKey) {
      if (!is_access(value)) return std::nullopt;
      note.access = value;
    } else if (key == kGidKey) {
      if (!parse_gids(value, note.gids)) return std::nullopt;
    } else if (key == kEncryptedKey) {
      note.encrypted = paths_of(value);
    } else if (key == "rnic") {
      while (!value.empty()) {
        std::optional<RnicPortName> rnic = parse_rnic_port(take(value, ','));
        if (!rnic) return std::nullopt;
        note.rnics.push_back(std::move(*rnic));
      }
    }
  }
  return note;
}

std::string with_access(std::string_view alias, std::string_view access) {
  const EncryptedPaths paths = paths_in(alias);
  const std::string text = without(without(alias, kAccessKey), kEncryptedKey);
  const std::string more = ";" + std::string(kAccessKey) + "=" + std::string(access);
  const std::size_t kept_free = paths.none() ? 0 : kEncryptedBytesMin;
  const bool fit = is_access(access) && text.size() + more.size() + kept_free <= kAliasBytesMax;
  return with_encrypted(fit ? text + more : text, paths);
}

std::string with_encrypted(std::string_view alias, const EncryptedPaths& paths) {
  std::string text = without(alias, kEncryptedKey);
  if (paths.none()) return text;
  const auto has_room = [&] { return text.size() + kEncryptedBytesMin <= kAliasBytesMax; };
  // A note of an earlier version keeps no room free. Its mode says nothing to a reader.
  if (!has_room()) text = without(text, kModeKey);
  if (!has_room()) return text;  // not a note of the plugin
  text += ";" + std::string(kEncryptedKey) + "=";
  return text + to_text(paths, kAliasBytesMax - text.size());
}

std::string note_of_plugin(std::string_view alias) {
  return without(without(without(alias, kEncryptedKey), kAccessKey), kModeKey);
}

}  // namespace fairlead
