// Netlink attributes into JSON, by tables that say what stands where.
#pragma once

#include <netlink/attr.h>

#include <nlohmann/json.hpp>
#include <span>

namespace lab {

enum class Kind { kUnsigned, kText, kNested };

// An attribute: its number, its name in the JSON, and how it is read. Unsigned of any size.
struct Attribute {
  int number;
  const char* name;
  Kind kind = Kind::kUnsigned;
  std::span<const Attribute> nested = {};
};

// Attributes that the table does not know are left out. `head` and `bytes` as nla_for_each wants
// them; the memory is only read.
nlohmann::json attributes_to_json(nlattr* head, int bytes, std::span<const Attribute> table);

}  // namespace lab
