// Attaches the option program for the sockets that a user opens in a cgroup, until the process
// ends. The node side does the same for a proxy without capabilities.
//
//   option_attach CGROUP UID      prints "attached"
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "bpf/option_program.h"

int main(int argc, char** argv) {
  uid_t uid = 0;
  if (argc != 3 || std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), uid).ptr !=
                       argv[2] + std::strlen(argv[2])) {
    std::fprintf(stderr, "usage: option_attach CGROUP UID\n");
    return 64;
  }
  const auto program = fairlead::bpf::OptionProgram::attach_for_uid(argv[1], uid);
  if (!program) {
    std::fprintf(stderr, "option_attach: %s\n", fairlead::bpf::refusal().c_str());
    return 1;
  }
  std::puts("attached");
  std::fflush(stdout);
  pause();
  return 0;
}
