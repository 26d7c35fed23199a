#include "config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/linux/handle.h"
#include "base/result.h"
#include "config/check.h"
#include "config/document.h"
#include "config/key.h"

namespace fairlead::config {
namespace {

tl::unexpected<std::vector<ConfigError>> one_error(ConfigError error) {
  std::vector<ConfigError> errors;
  errors.push_back(std::move(error));
  return tl::unexpected(std::move(errors));
}

ConfigError file_error(const std::string& path, const std::string& what, int error_number) {
  return {path, 0, 0, "", what + ": " + std::generic_category().message(error_number)};
}

Result<std::string, ConfigError> read_file(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return tl::unexpected(ConfigError{path, 0, 0, "", "the name of the file is empty or broken"});
  // Without O_NONBLOCK, opening a FIFO would never return.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return tl::unexpected(file_error(path, "cannot be opened", errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return tl::unexpected(file_error(path, "cannot be examined", errno));
  if (!S_ISREG(status.st_mode))
    return tl::unexpected(
        ConfigError{path, 0, 0, "",
                    std::string(S_ISDIR(status.st_mode) ? "is a directory" : "is not a file") +
                        "; allowed: a regular file"});
  // One byte more than the parser takes, so that it notices the excess.
  std::string text(kDocumentBytesMax + 1, '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected(file_error(path, "cannot be read", errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

Node comma_list(std::string_view text) {
  Node list;
  list.kind = Node::Kind::kSequence;
  if (trimmed(text).empty()) return list;
  while (true) {
    const std::size_t comma = text.find(',');
    list.items.push_back(scalar_node(std::string(trimmed(text.substr(0, comma))), false));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

Result<Node, ConfigError> override_node(const Override& change, KeyShape shape) {
  if (change.text.size() > kDocumentBytesMax)
    return tl::unexpected(ConfigError{change.origin, 0, 0, change.key, "the value is too long"});
  if (shape != KeyShape::kList) return scalar_node(change.text, false);
  if (!trimmed(change.text).starts_with('[')) return comma_list(change.text);
  return parse_document(change.text, change.origin);
}

void read_override(const Override& change, Config& config, Reading& reading) {
  reading.file = change.origin;
  for (const Key<Config>& key : config_keys()) {
    if (key.path != change.key) continue;
    const Result<Node, ConfigError> node = override_node(change, key.shape);
    if (!node) {
      reading.findings.add({node.error().file, node.error().line, node.error().column}, change.key,
                           node.error().message);
      return;
    }
    // A list is replaced as a whole, so its items' places in the file mean nothing any more.
    std::erase_if(reading.set,
                  [&](const auto& entry) { return entry.first.starts_with(change.key + "["); });
    reading.set[change.key] = reading.origin(*node);
    key.read(*node, change.key, config, reading);
    return;
  }
  std::vector<std::string> paths = paths_of(config_keys());
  const std::string_view meant = closest(change.key, paths);
  reading.findings.add({change.origin, 0, 0}, change.key,
                       meant.empty()
                           ? "there is no such key"
                           : "there is no such key, did you mean " + in_quotes(meant) + "?");
}

LoadResult finish(Config config, Reading& reading, const std::string& name) {
  settle_defaults(config, reading.set);
  check_relations(config, reading.set, {name, 0, 0}, reading.findings);
  if (reading.findings.empty()) return config;
  return tl::unexpected(reading.findings.take());
}

LoadResult load_parts(const std::string* text, const std::string& name,
                      const std::vector<Override>& overrides) {
  Findings findings;
  Reading reading{findings, name, {}};
  Config config;
  if (text != nullptr) {
    const Result<Node, ConfigError> root = parse_document(*text, name);
    if (!root) return one_error(root.error());
    read_members<Config>(*root, "", "", config_keys(), config, reading);
  }
  for (const Override& change : overrides) read_override(change, config, reading);
  return finish(std::move(config), reading, name);
}

}  // namespace

LoadResult load(const Sources& sources) {
  if (!sources.file) return load_parts(nullptr, "configuration", sources.overrides);
  const Result<std::string, ConfigError> text = read_file(*sources.file);
  if (!text) return one_error(text.error());
  return load_parts(&*text, *sources.file, sources.overrides);
}

LoadResult load_file(const std::string& path) { return load({path, {}}); }

LoadResult load_text(std::string_view text, const std::string& name) {
  const std::string copy(text);
  return load_parts(&copy, name, {});
}

Result<void, ConfigError> apply_override(Config& config, const Override& change) {
  Findings findings;
  Reading reading{findings, change.origin, {}};
  // A value that differs from its default was set by somebody, and is not ours to lower.
  const Config defaults;
  if (config.buffers.publish != defaults.buffers.publish) reading.set["buffers.publish"] = {};
  if (config.limits.handshakes != defaults.limits.handshakes) reading.set["limits.handshakes"] = {};
  Config changed = config;
  read_override(change, changed, reading);
  LoadResult result = finish(std::move(changed), reading, change.origin);
  if (!result) return tl::unexpected(std::move(result.error().front()));
  config = std::move(*result);
  return {};
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const Key<Config>& key : config_keys()) {
    if (key.item_keys.empty()) keys.push_back(key.path);
    for (const std::string& item : key.item_keys) keys.push_back(key.path + "[]." + item);
  }
  return keys;
}

}  // namespace fairlead::config
