#include "injector/bounded_json.h"

#include <utility>
#include <vector>

namespace fairlead::injector {
namespace {

// nlohmann's SAX parser keeps no stack of its own per level but two bits, so that deep nesting ends
// here, at the limit, and not in the parser.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    if (error_.empty()) error_ = "not JSON, at byte " + std::to_string(position);
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  Json* place(Json value) {
    if (++count_ > kJsonValuesMax) {
      error_ = "more than " + std::to_string(kJsonValuesMax) + " values";
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& entry = parent[key_];
    entry = std::move(value);
    return &entry;
  }

  bool add(Json value) { return place(std::move(value)) != nullptr; }

  // Pointers into the tree stay valid: only the innermost open container grows.
  bool open(Json container) {
    if (open_.size() >= kJsonDepthMax) {
      error_ = "nested deeper than " + std::to_string(kJsonDepthMax) + " levels";
      return false;
    }
    Json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string error_;
  std::size_t count_ = 0;
};

const Json& null_json() {
  static const Json kNull;
  return kNull;
}

}  // namespace

tl::expected<Json, std::string> parse_bounded_json(std::string_view text) {
  TreeBuilder builder;
  if (!Json::sax_parse(text, &builder))
    return tl::unexpected(builder.error().empty() ? "not JSON" : builder.error());
  return builder.take();
}

const Json& member(const Json& object, std::string_view name) {
  if (!object.is_object()) return null_json();
  const auto found = object.find(std::string(name));
  return found == object.end() ? null_json() : *found;
}

const Json& member(const Json& object, std::string_view first, std::string_view second) {
  return member(member(object, first), second);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

const Json& items_of(const Json& value) {
  static const Json kEmpty = Json::array();
  return value.is_array() ? value : kEmpty;
}

std::map<std::string, std::string, std::less<>> strings_of(const Json& value) {
  std::map<std::string, std::string, std::less<>> strings;
  if (!value.is_object()) return strings;
  for (const auto& [key, entry] : value.items())
    if (entry.is_string()) strings.emplace(key, entry.get<std::string>());
  return strings;
}

}  // namespace fairlead::injector
