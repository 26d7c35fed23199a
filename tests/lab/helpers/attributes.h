// Converts netlink attributes to JSON by tables that describe them.
#pragma once

#include <netlink/attr.h>

#include <nlohmann/json.hpp>
#include <span>

namespace lab {

enum class Kind { kUnsigned, kText, kNested };

// An attribute: its number, its name in the JSON, and its format. Unsigned numbers have any size.
struct Attribute {
  int number;
  const char* name;
  Kind kind = Kind::kUnsigned;
  std::span<const Attribute> nested = {};
};

// Skips attributes that are not in the table. `head` and `bytes` are arguments of nla_for_each; the
// memory is only read.
nlohmann::json attributes_to_json(nlattr* head, int bytes, std::span<const Attribute> table);

}  // namespace lab
