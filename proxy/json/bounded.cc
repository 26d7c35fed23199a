#include "json/bounded.h"

#include "base/result.h"

#include <utility>
#include <vector>

namespace fairlead::json {
namespace {

// nlohmann's SAX parser keeps no stack of its own per level but two bits, so that deep nesting ends
// here, at the limit, and not in the parser.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const Limits& limits) : limits_(limits) {}

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
    if (skipped_levels_ > 0) return true;
    skips_next_ = !limits_.skipped.empty() && name == limits_.skipped;
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
    if (++count_ > limits_.values) {
      error_ = "more than " + std::to_string(limits_.values) + " values";
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

  // True where a value is, or is in, that of a member to leave out.
  bool skips() { return std::exchange(skips_next_, false) || skipped_levels_ > 0; }

  bool add(Json value) { return skips() || place(std::move(value)) != nullptr; }

  // Pointers into the tree stay valid: only the innermost open container grows.
  bool open(Json container) {
    if (skips()) {
      ++skipped_levels_;
      return true;
    }
    if (open_.size() >= limits_.depth) {
      error_ = "nested deeper than " + std::to_string(limits_.depth) + " levels";
      return false;
    }
    Json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }

  bool close() {
    if (skipped_levels_ > 0) {
      --skipped_levels_;
      return true;
    }
    open_.pop_back();
    return true;
  }

  const Limits limits_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string error_;
  std::size_t count_ = 0;
  bool skips_next_ = false;
  std::size_t skipped_levels_ = 0;  // open ones
};

}  // namespace

Result<Json, std::string> parse(std::string_view text, const Limits& limits) {
  if (text.size() > limits.bytes)
    return tl::unexpected("longer than " + std::to_string(limits.bytes) + " bytes");
  TreeBuilder builder(limits);
  if (!Json::sax_parse(text, &builder))
    return tl::unexpected(builder.error().empty() ? "not JSON" : builder.error());
  return builder.take();
}

Json parse_beginning(std::string_view text, const Limits& limits) {
  TreeBuilder builder(limits);
  (void)Json::sax_parse(text.substr(0, limits.bytes), &builder);
  return builder.take();
}

}  // namespace fairlead::json
