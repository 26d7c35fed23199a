// fairleadctl: looks into a running proxy through its admin endpoint.
#include <iostream>

#include "ctl/app.h"

int main(int argument_count, char** arguments) {
  return fairlead::ctl::run(argument_count, arguments, std::cout, std::cerr);
}
