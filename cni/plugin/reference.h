// The tables of docs/cni-reference.md, generated from the tables in the code.
#pragma once

#include <string>

namespace fairlead::cni {

std::string reference_page();

}  // namespace fairlead::cni
