// What is explored.
#pragma once

#include <memory>
#include <vector>

#include "explorer.h"

namespace explore {

using Scenarios = std::vector<std::unique_ptr<Scenario>>;

template <class... Made>
void add(Scenarios& to) {
  (to.push_back(std::make_unique<Made>()), ...);
}

void add_ring_scenarios(Scenarios& to);     // rings alone, by their own classes
void add_channel_scenarios(Scenarios& to);  // workers that sleep and wake each other

// Small programs whose outcomes are known. Returns how many of them the explorer has got wrong, and
// prints those.
unsigned check_litmus(unsigned& programs);

}  // namespace explore
