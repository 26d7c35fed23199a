// fairleadctl as a whole, with arguments as from a shell.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "ctl/app.h"

namespace fairlead::ctl {

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

inline Outcome run_with(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "fairleadctl");
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = run(static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {exit_code, out.str(), err.str()};
}

}  // namespace fairlead::ctl
