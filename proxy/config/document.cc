#include "config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <optional>
#include <sstream>
#include <utility>

#include "base/assert.h"
#include "base/result.h"
#include "config/scalar.h"

// yaml-cpp's own tree is not used: it forgets repeated keys and where a key stood, and shares nodes
// between aliases. Its events are kept instead. After the first complaint the events are ignored,
// not stopped by throwing: the size of the text bounds what is still to come.
namespace fairlead::config {
namespace {

using Kind = Node::Kind;

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& name, std::optional<ConfigError>& error)
      : name_(name), error_(error) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (accept(mark, "", anchor)) leaf(node_at(mark, Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*name) is not supported; allowed: write the value again");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(mark, "an anchor (&name) is not supported; allowed: values without anchors");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!accept(mark, tag, anchor)) return;
    Node node = node_at(mark, Kind::kScalar);
    node.quoted = tag == "!";  // yaml-cpp's mark for quotes and blocks; a plain scalar has "?"
    node.text = value;
    leaf(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::kMapping);
  }
  void OnMapEnd() override { close(); }

 private:
  static Node node_at(const YAML::Mark& mark, Kind kind) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void refuse(const YAML::Mark& mark, std::string message) {
    if (!error_)
      error_ = ConfigError{name_, mark.line + 1, mark.column + 1, "", std::move(message)};
  }

  bool accept(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (error_) return false;
    if (anchor != YAML::NullAnchor)
      refuse(mark, "an anchor (&name) is not supported; allowed: values without anchors");
    else if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, "the tag " + in_quotes(tag) + " is not supported; allowed: values without tags");
    else if (++node_count_ > kDocumentNodesMax)
      refuse(mark, "too many values; allowed: " + std::to_string(kDocumentNodesMax));
    return !error_;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    if (!accept(mark, tag, anchor)) return;
    if (expects_key())
      return refuse(mark, "a key is a list or a mapping; allowed: a key made of plain text");
    if (open_.size() >= kDocumentDepthMax)
      return refuse(mark,
                    "nested too deeply; allowed: " + std::to_string(kDocumentDepthMax) + " levels");
    open_.push_back(node_at(mark, kind));
  }

  void close() {
    if (error_) return;
    SMC_ASSERT(!open_.empty());
    Node done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }

  void leaf(Node node) {
    if (expects_key() && node.kind != Kind::kScalar) {
      if (!error_)
        error_ = ConfigError{name_, node.line, node.column, "",
                             "a key is missing; allowed: a key made of plain text"};
      return;
    }
    add(std::move(node));
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().kind == Kind::kMapping &&
           open_.back().keys.size() == open_.back().items.size();
  }

  void add(Node node) {
    if (open_.empty())
      root_ = std::move(node);
    else if (expects_key())
      open_.back().keys.push_back(std::move(node));
    else
      open_.back().items.push_back(std::move(node));
  }

  const std::string& name_;
  std::optional<ConfigError>& error_;
  std::vector<Node> open_;
  Node root_;
  std::size_t node_count_ = 0;
};

// Length of the UTF-8 sequence at `at`, 0 when it is none: overlong forms, surrogates and values
// above U+10FFFF are none (RFC 3629, section 4).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// yaml-cpp takes U+0004 for the end of the text and would silently drop what follows, and guesses
// UTF-16 from the first bytes; so the text is looked through before.
std::optional<ConfigError> check_characters(std::string_view text, const std::string& name) {
  int line = 1, column = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return ConfigError{name, line, column, "", "not UTF-8 text; allowed: UTF-8"};
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      return ConfigError{name, line, column, "",
                         "the control character " + in_quotes(text.substr(at, 1)) +
                             "; allowed: printable characters, tab and end of line"};
    if (byte == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
    at += length;
  }
  return std::nullopt;
}

// An IPv6 address without quotes begins a list for YAML, and the complaint that follows from it
// helps nobody.
bool unquoted_bracket_on_line(std::string_view text, int line) {
  for (int at = 1; at < line; ++at) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  const std::size_t bracket = text.find(": [");
  return bracket != std::string_view::npos && text.find("]:", bracket) != std::string_view::npos;
}

ConfigError syntax_error(const YAML::Exception& thrown, std::string_view text,
                         const std::string& name) {
  ConfigError error{name, 0, 0, "", "not valid YAML: " + escaped(thrown.msg)};
  if (!thrown.mark.is_null()) {
    error.line = thrown.mark.line + 1;
    error.column = thrown.mark.column + 1;
  }
  for (const int line : {error.line, error.line - 1})
    if (line > 0 && unquoted_bracket_on_line(text, line)) {
      error.line = line;
      error.column = 1;
      error.message += "; allowed: an IPv6 address and port in quotes, \"[::1]:4540\"";
      break;
    }
  return error;
}

}  // namespace

Result<Node, ConfigError> parse_document(std::string_view text, const std::string& name) {
  if (text.size() > kDocumentBytesMax)
    return tl::unexpected(
        ConfigError{name, 0, 0, "", "too large; allowed: at most " + size_text(kDocumentBytesMax)});
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::optional<ConfigError> error = check_characters(text, name);
  if (error) return tl::unexpected(*error);
  TreeBuilder builder(name, error);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Node root = builder.take();
    if (!error && parser.HandleNextDocument(builder) && !error)
      error = ConfigError{name, 0, 0, "", "more than one document; allowed: one, without \"---\""};
    if (!error) return root;
  } catch (const YAML::Exception& thrown) {
    // Wins over what the builder found before: half a bracket makes strange keys.
    error = syntax_error(thrown, text, name);
  } catch (const std::exception& thrown) {
    if (!error) error = ConfigError{name, 0, 0, "", std::string("not readable: ") + thrown.what()};
  }
  return tl::unexpected(std::move(*error));
}

}  // namespace fairlead::config
