#include "injector/manifest.h"

#include "base/result.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>

namespace fairlead::injector {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// YAML 1.1, as kubectl's parser reads it.
bool is_true(std::string_view text) {
  return is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"});
}

bool is_false(std::string_view text) {
  return is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"});
}

bool is_null(std::string_view text) {
  return text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"});
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::optional<std::int64_t> integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) base = 16;
  if (text.starts_with("0b")) base = 2;
  if (text.starts_with("0o")) base = 8;
  if (base != 10)
    text.remove_prefix(2);
  else if (text.size() > 1 && text.front() == '0')
    base = 8;
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return is_negative ? -number : number;
}

std::optional<double> real(std::string_view text) {
  const auto is_of_a_number = [](char c) {
    return is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
  };
  const bool is_number = std::all_of(text.begin(), text.end(), is_of_a_number) &&
                         std::any_of(text.begin(), text.end(), is_digit);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (!is_number || error != std::errc{} || stop != end || !std::isfinite(number))
    return std::nullopt;
  return number;
}

OrderedJson plain_scalar(const std::string& text) {
  if (is_null(text)) return nullptr;
  if (is_true(text)) return true;
  if (is_false(text)) return false;
  if (const auto number = integer(text)) return *number;
  if (const auto number = real(text)) return *number;
  return text;
}

struct Reading {
  std::size_t values = 0;
  std::string error;
};

std::string place(const YAML::Mark& mark) {
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1) +
         ": ";
}

OrderedJson convert(const YAML::Node& node, std::size_t depth, Reading& reading) {
  if (!reading.error.empty()) return nullptr;
  if (++reading.values > kManifestValuesMax || depth > kManifestDepthMax) {
    reading.error = place(node.Mark()) + "too many values, or nested too deeply; allowed: " +
                    std::to_string(kManifestValuesMax) + " and " +
                    std::to_string(kManifestDepthMax);
    return nullptr;
  }
  if (node.IsScalar()) {
    const bool is_text = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
    return is_text ? OrderedJson(node.Scalar()) : plain_scalar(node.Scalar());
  }
  if (node.IsSequence()) {
    OrderedJson list = OrderedJson::array();
    for (const YAML::Node& item : node) list.push_back(convert(item, depth + 1, reading));
    return list;
  }
  if (!node.IsMap()) return nullptr;
  OrderedJson object = OrderedJson::object();
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      reading.error = place(entry.first.Mark()) + "a key is no text; allowed: text";
      return nullptr;
    }
    object[entry.first.Scalar()] = convert(entry.second, depth + 1, reading);
  }
  return object;
}

// Text that every YAML parser reads as text: words that begin with a letter, "_" or "/".
bool is_plain_text(std::string_view text) {
  constexpr std::size_t kPlainMax = 200;
  const auto is_plain = [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("_./@+-").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kPlainMax &&
         (is_letter(text.front()) || text.front() == '_' || text.front() == '/') &&
         std::all_of(text.begin(), text.end(), is_plain) && !is_null(text) && !is_true(text) &&
         !is_false(text) && !is_one_of(text, {"y", "Y", "n", "N"});
}

std::string scalar_text(const OrderedJson& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  // A JSON string is a YAML string in double quotes.
  return is_plain_text(text) ? text
                             : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string key_text(const std::string& key) { return scalar_text(OrderedJson(key)); }

bool is_block(const OrderedJson& value) { return value.is_structured() && !value.empty(); }

void print_block(const OrderedJson& value, std::size_t indent, std::string& out);

// Behind "key:" or "-", on the same line or below it.
void print_value(const OrderedJson& value, std::size_t indent, std::string& out) {
  if (is_block(value)) {
    out += '\n';
    print_block(value, indent, out);
  } else {
    out += ' ' + scalar_text(value) + '\n';
  }
}

void print_block(const OrderedJson& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, entry] : value.items()) {
      out += margin + key_text(key) + ':';
      print_value(entry, entry.is_array() ? indent : indent + 2, out);
    }
    return;
  }
  for (const OrderedJson& item : value) {
    if (!is_block(item)) {
      out += margin + "- " + scalar_text(item) + '\n';
      continue;
    }
    std::string lines;
    print_block(item, indent + 2, lines);
    lines[indent] = '-';
    out += lines;
  }
}

// The pod of an object: the object itself, or its pod template. Null if there is none.
OrderedJson* pod_of(OrderedJson& object) {
  const auto find = [](OrderedJson& from, std::initializer_list<const char*> path) {
    OrderedJson* at = &from;
    for (const char* step : path) {
      if (!at->is_object() || !at->contains(step)) return static_cast<OrderedJson*>(nullptr);
      at = &(*at)[step];
    }
    return at;
  };
  if (!object.is_object() || !object.contains("kind") || !object["kind"].is_string())
    return nullptr;
  const auto kind = object["kind"].get<std::string>();
  if (kind == "Pod") return &object;
  if (kind == "CronJob") return find(object, {"spec", "jobTemplate", "spec", "template"});
  for (const char* maker :
       {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"})
    if (kind == maker) return find(object, {"spec", "template"});
  return nullptr;
}

std::string name_of(const OrderedJson& object) {
  if (!object.contains("metadata") || !object["metadata"].is_object()) return "";
  const OrderedJson& metadata = object["metadata"];
  for (const char* key : {"name", "generateName"})
    if (metadata.contains(key) && metadata[key].is_string()) return metadata[key];
  return "";
}

// Finds where yaml-cpp gets no further: it leaves a comma outside of brackets where it is, and
// makes documents of it without end.
class ProgressCheck final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    stuck_ = begun_.pos == mark.pos;
    begun_ = mark;
  }
  bool stuck() const { return stuck_; }
  const YAML::Mark& begun() const { return begun_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  YAML::Mark begun_ = YAML::Mark::null_mark();
  bool stuck_ = false;
};

// Where nothing can begin that YAML has, if there is such a place.
std::optional<YAML::Mark> find_stray(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  ProgressCheck check;
  while (parser.HandleNextDocument(check))
    if (check.stuck()) return check.begun();
  return std::nullopt;
}

}  // namespace

Result<Manifest, std::string> parse_manifest(std::string_view text) {
  if (text.size() > kManifestBytesMax)
    return tl::unexpected(std::string("too large; allowed: 64 MiB"));
  Manifest manifest;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) {
    OrderedJson parsed = OrderedJson::parse(text, nullptr, false);
    if (!parsed.is_discarded()) {
      manifest.is_json = true;
      manifest.documents.push_back(std::move(parsed));
      return manifest;
    }
  }
  Reading reading;
  try {
    const std::string copy(text);
    if (const auto stray = find_stray(copy))
      return tl::unexpected(place(*stray) + "not valid YAML: nothing can begin here");
    for (const YAML::Node& node : YAML::LoadAll(copy))
      manifest.documents.push_back(convert(node, 0, reading));
  } catch (const YAML::Exception& thrown) {
    return tl::unexpected(place(thrown.mark) + "not valid YAML: " + thrown.msg);
  }
  if (!reading.error.empty()) return tl::unexpected(reading.error);
  return manifest;
}

std::string print_manifest(const Manifest& manifest) {
  if (manifest.is_json) return manifest.documents.front().dump(2) + '\n';
  std::string out;
  bool is_first = true;
  for (const OrderedJson& document : manifest.documents) {
    if (document.is_null()) continue;
    if (!is_first) out += "---\n";
    is_first = false;
    if (is_block(document))
      print_block(document, 0, out);
    else
      out += scalar_text(document) + '\n';
  }
  return out;
}

std::vector<InjectedPod> inject_into(OrderedJson& document, const Settings& settings,
                                     bool namespace_opted_in) {
  std::vector<InjectedPod> done;
  if (document.is_object() && document.contains("items") && document["items"].is_array()) {
    for (OrderedJson& item : document["items"]) {
      auto inner = inject_into(item, settings, namespace_opted_in);
      done.insert(done.end(), std::make_move_iterator(inner.begin()),
                  std::make_move_iterator(inner.end()));
    }
    return done;
  }
  OrderedJson* pod = pod_of(document);
  if (pod == nullptr) return done;
  Decision decision = decide(Json(*pod), settings, namespace_opted_in);
  if (!decision.patch.empty()) *pod = pod->patch(OrderedJson(decision.patch));
  done.push_back({document["kind"].get<std::string>(), name_of(document), std::move(decision)});
  return done;
}

}  // namespace fairlead::injector
