// fairlead-proxy with other devices than a pod has, to test what RNICs and several ports need on a
// machine that has neither. Words of OTHER_DEVICES: "staged", "own_queues",
// "ports=2", "ports=3".
#include <cstdlib>
#include <string_view>

#include "app/proxy.h"

int main(int argc, char** argv) {
  const char* const variable = std::getenv("OTHER_DEVICES");
  const std::string_view words = variable == nullptr ? "" : variable;
  const auto has = [words](std::string_view word) { return words.find(word) != words.npos; };
  const fairlead::DeviceTraits traits{.shm_addressable = !has("staged"),
                                      .shm_ports = has("ports=3")   ? 3U
                                                   : has("ports=2") ? 2U
                                                                    : 1U,
                                      .shared_receive_queues = !has("own_queues")};
  return fairlead::run_proxy(argc, argv, traits);
}
