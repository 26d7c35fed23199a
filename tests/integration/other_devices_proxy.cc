// fairlead-proxy with other devices than a pod has, to test what RNICs and several ports need on a
// machine that has neither. Words of OTHER_DEVICES: "staged", "own_queues", "ports=2", "ports=3".
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "app/proxy.h"

namespace {

// False for an unknown word: a test must not have ordinary devices by mistake.
bool apply(const std::string& word, fairlead::DeviceTraits& traits) {
  if (word == "staged") return !(traits.shm_addressable = false);
  if (word == "own_queues") return !(traits.shared_receive_queues = false);
  if (word != "ports=2" && word != "ports=3") return false;
  traits.shm_ports = word == "ports=2" ? 2 : 3;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const variable = std::getenv("OTHER_DEVICES");
  std::istringstream words(variable == nullptr ? "" : variable);
  fairlead::DeviceTraits traits;
  std::size_t count = 0;
  for (std::string word; words >> word; ++count) {
    if (apply(word, traits)) continue;
    std::fprintf(stderr, "OTHER_DEVICES: unknown word %s\n", word.c_str());
    return 64;
  }
  if (count != 0) return fairlead::run_proxy(argc, argv, traits);
  std::fprintf(stderr, "OTHER_DEVICES: no words\n");
  return 64;
}
