// A kubeconfig, up to the connection. Files that it names are those of a small invented disk.
// Properties: an error names the file, and prints as one bounded line. An accepted access has a
// host, a port and a namespace, and nothing in it can break out of a line of an HTTP request.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/command_words.h"
#include "base/kubernetes_names.h"
#include "ctl/cluster/kubeconfig.h"
#include "ctl/table.h"
#include "fuzz/reached.h"
#include "injector/certificate.h"

namespace {

using namespace fairlead;
using namespace fairlead::ctl;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::hours(24 * 365 * 50)};

const std::map<std::string, std::string>& disk() {
  static const std::map<std::string, std::string> files = [] {
    const auto authority = injector::make_authority(kNow);
    const auto old = injector::make_authority(kNow - std::chrono::hours(48), std::chrono::hours(1));
    SMC_ASSERT(authority.has_value() && old.has_value());
    return std::map<std::string, std::string>{{"/k/ca", authority->certificate_pem},
                                              {"/k/key", authority->key_pem},
                                              {"/k/old", old->certificate_pem},
                                              {"/k/token", "abc \n\n"},
                                              {"/k/blank", "a b"},
                                              {"/k/empty", ""}};
  }();
  return files;
}

FileSource source_of(const std::string& config) {
  return {[](const std::string&) { return true; },
          [&config](const std::string& path) -> tl::expected<std::string, std::string> {
            if (path == "/k/config") return config;
            const auto found = disk().find(path);
            if (found == disk().end()) return tl::unexpected(std::string("not there"));
            return found->second;
          }};
}

bool is_one_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

void check_access(const ClusterAccess& access) {
  SMC_ASSERT(!access.host.empty() && access.target.port != 0);
  SMC_ASSERT(access.server.starts_with("https://") && is_one_word(access.server));
  SMC_ASSERT(access.base_path.empty() || access.base_path.front() == '/');
  SMC_ASSERT(!access.base_path.ends_with('/'));
  SMC_ASSERT(is_one_word(access.token) && is_one_word(access.target.server_name));
  SMC_ASSERT(!access.name_space.empty() && is_one_word(access.name_space));
  SMC_ASSERT(access.name_space.find('/') == std::string::npos && access.name_space != "..");
  SMC_ASSERT(access.target.certificate_pem.empty() == access.target.key_pem.empty());
  SMC_ASSERT(access.target.verify || access.target.ca_pem.empty());
  SMC_ASSERT(access.target.system_authorities == access.target.ca_pem.empty());
  fuzz::reached("accepted");
  if (!access.token.empty()) fuzz::reached("accepted: a token");
  if (!access.target.certificate_pem.empty()) fuzz::reached("accepted: a certificate");
  if (!access.target.ca_pem.empty()) fuzz::reached("accepted: an authority");
  if (!access.target.verify) fuzz::reached("accepted: no verification");
  if (access.server.find('[') != std::string::npos) fuzz::reached("accepted: an IPv6 address");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const FileSource source = source_of(text);
  for (const char* context : {"", "b"}) {
    const auto access = read_kubeconfig({"/k/config"}, context, kNow, source);
    if (access) {
      check_access(*access);
      continue;
    }
    SMC_ASSERT(access.error().starts_with("kubeconfig /k/config: "));
    fuzz::check_printable(printable(shown_message(access.error())), 8192);
    std::string_view what = access.error();
    what.remove_prefix(std::string_view("kubeconfig /k/config: ").size());
    // The name of an entry is the input's.
    std::string shape = fuzz::shape_of(what.substr(0, what.find("is no YAML")));
    const std::size_t open = shape.find('['), close = shape.rfind(']');
    if (open < close && close != std::string::npos) shape.erase(open, close - open + 1);
    fuzz::reached("refused: " + shape.substr(0, shape.find("; there are")));
  }
  return 0;
}
