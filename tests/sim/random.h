// The only random source of a simulation: its numbers are a function of the seed alone.
#pragma once

#include <cstdint>

namespace fairlead::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64: small, and good enough for any seed, consecutive ones too.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Both bounds are possible. REQUIRES: least <= most
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    const std::uint64_t span = most - least + 1;
    return span == 0 ? next() : least + next() % span;
  }
  // True with this probability, in thousandths.
  bool chance(unsigned per_mille) { return next() % 1000 < per_mille; }
  // A separate stream, so that more numbers in one place change nothing in another.
  Random fork() { return Random(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace fairlead::sim
