#include "ctl/cluster/kubeconfig.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/result.h"
#include "base/utc_time.h"
#include "event/https/base64.h"
#include "injector/certificate.h"
#include "injector/manifest.h"
#include "json/members.h"

namespace fairlead::ctl {
namespace {

using Yaml = injector::OrderedJson;
using WallTime = std::chrono::system_clock::time_point;
using Text = Result<std::string, std::string>;

constexpr std::uint16_t kHttpsPort = 443;

struct File {
  std::string path;
  Yaml content;
  const FileSource* source = nullptr;  // for the files that it names
};

// An entry of one of the lists, and where it is for people: "users[admin].user".
struct Entry {
  std::string path;  // of the file
  std::string place;
  const Yaml* fields = nullptr;
  const FileSource* source = nullptr;
};

tl::unexpected<std::string> fail(const std::string& path, const std::string& field,
                                 const std::string& what) {
  return tl::unexpected("kubeconfig " + path + ": " + (field.empty() ? "" : field + ": ") + what);
}

tl::unexpected<std::string> fail(const Entry& entry, const char* field, const std::string& what) {
  return fail(entry.path, entry.place + "." + field, what);
}

const Yaml& field_of(const Yaml& object, const char* name) {
  static const Yaml kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string text_of(const Yaml& object, const char* name) {
  const Yaml& value = field_of(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Of a member that is a text, or missing.
Text text_field(const Entry& entry, const char* field) {
  const Yaml& value = field_of(*entry.fields, field);
  if (!value.is_null() && !value.is_string())
    return fail(entry, field, "is no text; put it in quotes");
  return text_of(*entry.fields, field);
}

bool is_given(const Yaml& object, const char* name) {
  const Yaml& value = field_of(object, name);
  return !value.is_null() && value != "";
}

Text read_bounded(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return tl::unexpected(std::string(std::strerror(EISDIR)));
  std::ifstream file(path, std::ios::binary);
  if (!file) return tl::unexpected(std::string(std::strerror(errno)));
  std::string text(kKubeconfigBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kKubeconfigBytesMax)
    return tl::unexpected("longer than " + std::to_string(kKubeconfigBytesMax) + " bytes");
  return text;
}

Result<File, std::string> read_file(const std::string& path, const FileSource& source) {
  const auto text = source.read(path);
  if (!text) return fail(path, "", "cannot be read: " + text.error());
  auto parsed = injector::parse_manifest(*text);
  if (!parsed) return fail(path, "", "is no YAML: " + parsed.error());
  if (parsed->documents.size() != 1 || !parsed->documents[0].is_object() ||
      !(field_of(parsed->documents[0], "clusters").is_array() ||
        field_of(parsed->documents[0], "contexts").is_array() ||
        field_of(parsed->documents[0], "users").is_array()))
    return fail(path, "",
                "is no kubeconfig; allowed: one document of kind Config with the lists clusters, "
                "users and contexts");
  return File{path, std::move(parsed->documents[0]), &source};
}

std::string shown_name(const Yaml& item) {
  const Yaml& name = field_of(item, "name");
  return json::shown_text(name) +
         (name.is_null() || name.is_string() ? "" : " (is no text; put it in quotes)");
}

std::string names_in(const std::vector<File>& files, const char* list) {
  std::string names;
  for (const File& file : files)
    for (const Yaml& item : field_of(file.content, list))
      if (const std::string name = shown_name(item); !name.empty())
        names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// `list` is "clusters", whose items have a name and a member `kind`, "cluster".
std::optional<Entry> find_entry(const std::vector<File>& files, const char* list, const char* kind,
                                const std::string& name) {
  for (const File& file : files)
    for (const Yaml& item : field_of(file.content, list))
      if (text_of(item, "name") == name)
        return Entry{file.path, std::string(list) + "[" + name + "]." + kind, &field_of(item, kind),
                     file.source};
  return std::nullopt;
}

// Of a field that names a file, or of the one beside it that has the content in base64. Empty when
// neither is given.
Text content_of(const Entry& entry, const char* file_field, const char* data_field) {
  const Yaml& fields = *entry.fields;
  if (is_given(fields, data_field)) {
    auto decoded = event::base64_decoded(text_of(fields, data_field));
    if (!decoded || decoded->empty())
      return fail(entry, data_field, "is not base64; allowed: PEM in base64, on one line");
    return std::move(*decoded);
  }
  if (!is_given(fields, file_field)) return std::string();
  if (!field_of(fields, file_field).is_string())
    return fail(entry, file_field, "is no text; allowed: the path of a file with PEM");
  const std::filesystem::path folder = std::filesystem::path(entry.path).parent_path();
  const std::string path = (folder / text_of(fields, file_field)).string();
  auto text = entry.source->read(path);
  if (!text) return fail(entry, file_field, path + " cannot be read: " + text.error());
  if (text->empty()) return fail(entry, file_field, path + " is empty");
  return text;
}

// It goes into requests.
bool is_one_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string date_of(WallTime time) { return utc_text(std::chrono::system_clock::to_time_t(time)); }

// Empty when it is one, and valid.
std::string certificate_trouble(const std::string& pem, WallTime now) {
  const auto validity = injector::validity_of(pem);
  if (!validity) return "holds no certificate in PEM";
  if (now > validity->until) return "expired on " + date_of(validity->until);
  if (now < validity->from)
    return "is not valid before " + date_of(validity->from) + "; is the clock right?";
  return {};
}

Result<void, std::string> take_url(const Entry& cluster, ClusterAccess& access) {
  constexpr std::string_view kScheme = "https://";
  const auto refused = [&](const std::string& what) {
    return fail(cluster, "server", what + "; allowed: https://HOST[:PORT][/PATH]");
  };
  const Yaml& server = field_of(*cluster.fields, "server");
  if (!server.is_null() && !server.is_string()) return refused("is no text");
  access.server = text_of(*cluster.fields, "server");
  if (access.server.empty()) return refused("is missing");
  if (!is_one_word(access.server)) return refused("holds blanks or other than ASCII");
  std::string_view rest = access.server;
  if (!rest.starts_with(kScheme)) return refused("\"" + access.server + "\" is not allowed");
  rest.remove_prefix(kScheme.size());
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) access.base_path = rest.substr(slash);
  while (access.base_path.ends_with('/')) access.base_path.pop_back();
  rest = rest.substr(0, slash);
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return refused("\"" + access.server + "\" lacks a ]");
    access.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest.front() != ':') return refused("\"" + access.server + "\"");
    port = rest.empty() ? rest : rest.substr(1);
  } else {
    const std::size_t colon = rest.find(':');
    access.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
    if (colon != std::string_view::npos && port.empty()) return refused("the port is missing");
  }
  access.target.port = kHttpsPort;
  if (access.host.empty()) return refused("the host is missing");
  if (port.empty()) return {};
  const auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), access.target.port);
  if (error != std::errc{} || end != port.data() + port.size() || access.target.port == 0)
    return refused("\"" + std::string(port) + "\" is no port");
  return {};
}

Result<void, std::string> take_authority(const Entry& cluster, WallTime now,
                                         ClusterAccess& access) {
  constexpr const char* kField = "certificate-authority";
  auto authority = SMC_TRY(content_of(cluster, kField, "certificate-authority-data"));
  const Yaml& skip = field_of(*cluster.fields, "insecure-skip-tls-verify");
  if (!skip.is_null() && !skip.is_boolean())
    return fail(cluster, "insecure-skip-tls-verify",
                skip.dump(-1, ' ', true, Yaml::error_handler_t::replace) +
                    " is not allowed; allowed: true and false");
  access.target.verify = skip != true;
  if (!access.target.verify && !authority.empty())
    return fail(cluster, "insecure-skip-tls-verify",
                "is true beside an authority; remove one of the two");
  access.target.system_authorities = authority.empty();
  if (!authority.empty())
    if (const std::string trouble = certificate_trouble(authority, now); !trouble.empty())
      return fail(cluster, kField, trouble + "; take the authority of the cluster from its admin");
  access.target.ca_pem = std::move(authority);
  auto server_name = SMC_TRY(text_field(cluster, "tls-server-name"));
  access.target.server_name = std::move(server_name);
  if (access.target.server_name.empty()) access.target.server_name = access.host;
  if (!is_one_word(access.target.server_name))
    return fail(cluster, "tls-server-name", "holds blanks or other than ASCII");
  if (is_given(*cluster.fields, "proxy-url"))
    return fail(cluster, "proxy-url", "is not supported; reach the API server directly");
  return {};
}

Result<void, std::string> refuse_unsupported(const Entry& user) {
  constexpr const char* kInstead =
      "is not supported; put a token there instead, as from `kubectl create token ACCOUNT`";
  for (const char* field : {"exec", "auth-provider", "username", "password", "as", "as-uid",
                            "as-groups", "as-user-extra"})
    if (is_given(*user.fields, field)) return fail(user, field, kInstead);
  return {};
}

Result<void, std::string> take_token(const Entry& user, ClusterAccess& access) {
  const Yaml& fields = *user.fields;
  if (is_given(fields, "tokenFile")) {
    const auto file = SMC_TRY(text_field(user, "tokenFile"));
    const std::string path = (std::filesystem::path(user.path).parent_path() / file).string();
    auto text = user.source->read(path);
    if (!text) return fail(user, "tokenFile", path + " cannot be read: " + text.error());
    access.token = std::move(*text);
    while (!access.token.empty() && (access.token.back() == '\n' || access.token.back() == ' '))
      access.token.pop_back();
    if (access.token.empty()) return fail(user, "tokenFile", path + " is empty");
  } else if (is_given(fields, "token")) {
    auto token = SMC_TRY(text_field(user, "token"));
    access.token = std::move(token);
  }
  if (!is_one_word(access.token)) return fail(user, "token", "holds blanks or other than ASCII");
  return {};
}

Result<void, std::string> take_certificate(const Entry& user, WallTime now, ClusterAccess& access) {
  auto certificate = SMC_TRY(content_of(user, "client-certificate", "client-certificate-data"));
  auto key = SMC_TRY(content_of(user, "client-key", "client-key-data"));
  if (certificate.empty() && key.empty()) return {};
  if (certificate.empty()) return fail(user, "client-certificate", "is missing beside client-key");
  if (key.empty()) return fail(user, "client-key", "is missing beside client-certificate");
  if (const std::string trouble = certificate_trouble(certificate, now); !trouble.empty())
    return fail(user, "client-certificate", trouble + "; get a new kubeconfig for this cluster");
  if (key.find("PRIVATE KEY-----") == std::string::npos)
    return fail(user, "client-key", "holds no private key in PEM");
  access.target.certificate_pem = std::move(certificate);
  access.target.key_pem = std::move(key);
  return {};
}

Result<void, std::string> take_user(const std::vector<File>& files, const Entry& context,
                                    WallTime now, ClusterAccess& access) {
  const auto name = SMC_TRY(text_field(context, "user"));
  if (name.empty()) return {};
  const auto user = find_entry(files, "users", "user", name);
  if (!user)
    return fail(context, "user",
                "\"" + name + "\" is no user of this file; there are: " + names_in(files, "users"));
  if (auto done = refuse_unsupported(*user); !done) return done;
  if (auto done = take_token(*user, access); !done) return done;
  return take_certificate(*user, now, access);
}

Result<Entry, std::string> find_context(const std::vector<File>& files, std::string name,
                                        ClusterAccess& access) {
  const bool is_current = name.empty();
  for (const File& file : files) {
    if (!name.empty()) break;
    const Yaml& current = field_of(file.content, "current-context");
    if (!current.is_null() && !current.is_string())
      return fail(file.path, "current-context", "is no text; put it in quotes");
    name = text_of(file.content, "current-context");
  }
  if (name.empty())
    return fail(files.front().path, "current-context",
                "is not set; choose with --context one of: " + names_in(files, "contexts"));
  auto found = find_entry(files, "contexts", "context", name);
  if (!found)
    return fail(files.front().path, is_current ? "current-context" : "contexts",
                "there is no context \"" + name + "\"; there are: " + names_in(files, "contexts"));
  access.context = name;
  access.file = found->path;
  auto name_space = SMC_TRY(text_field(*found, "namespace"));
  access.name_space = std::move(name_space);
  if (access.name_space.empty()) access.name_space = "default";
  if (!kubernetes::is_object_name(access.name_space))
    return fail(
        *found, "namespace",
        "\"" + access.name_space + "\" is no name of a namespace; allowed: a-z, 0-9, - and .");
  return *found;
}

}  // namespace

std::vector<std::string> kubeconfig_files(const std::string& option) {
  if (!option.empty()) return {option};
  std::vector<std::string> files;
  const char* variable = std::getenv("KUBECONFIG");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (colon != 0) files.emplace_back(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  }
  const char* home = std::getenv("HOME");
  if (files.empty() && home != nullptr) files.push_back(std::string(home) + "/.kube/config");
  return files;
}

FileSource disk_files() {
  return {[](const std::string& path) {
            std::error_code error;
            return std::filesystem::exists(path, error) || error;
          },
          read_bounded};
}

Result<ClusterAccess, std::string> read_kubeconfig(const std::vector<std::string>& files,
                                                   const std::string& context, WallTime now,
                                                   const FileSource& source) {
  std::vector<File> read;
  std::string names;
  for (const std::string& path : files) {
    names += (names.empty() ? "" : ", ") + path;
    if (!source.exists(path)) continue;
    auto file = SMC_TRY(read_file(path, source));
    read.push_back(std::move(file));
  }
  if (read.empty())
    return tl::unexpected("kubeconfig: there is no file " + (names.empty() ? "at all" : names) +
                          "; give --kubeconfig FILE, or set KUBECONFIG");
  ClusterAccess access;
  const auto chosen = SMC_TRY(find_context(read, context, access));
  const auto name = SMC_TRY(text_field(chosen, "cluster"));
  const auto cluster = find_entry(read, "clusters", "cluster", name);
  if (!cluster)
    return fail(
        chosen, "cluster",
        "\"" + name + "\" is no cluster of this file; there are: " + names_in(read, "clusters"));
  SMC_TRY(take_url(*cluster, access));
  SMC_TRY(take_authority(*cluster, now, access));
  SMC_TRY(take_user(read, chosen, now, access));
  return access;
}

}  // namespace fairlead::ctl
