// An array with an element for each value of an enumeration that counts from 0.
#pragma once

#include <array>
#include <cstddef>

namespace fairlead {

template <class Enum, class Value, std::size_t kCount>
class EnumArray {
 public:
  constexpr Value& operator[](Enum which) { return values_[static_cast<std::size_t>(which)]; }
  constexpr const Value& operator[](Enum which) const {
    return values_[static_cast<std::size_t>(which)];
  }
  constexpr auto begin() { return values_.begin(); }
  constexpr auto begin() const { return values_.begin(); }
  constexpr auto end() { return values_.end(); }
  constexpr auto end() const { return values_.end(); }

 private:
  std::array<Value, kCount> values_{};
};

}  // namespace fairlead
