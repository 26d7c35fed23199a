// The kernel's SMC sockets, as sock_diag lists them.
#pragma once

#include <nlohmann/json.hpp>

namespace lab {

// One object a connected or listening socket of this network namespace: local, peer, state, mode
// ("smcr", "tcp" or "smcd"), for SMC-R sizes and cursors, for TCP the fallback reason.
nlohmann::json smc_sockets();

}  // namespace lab
