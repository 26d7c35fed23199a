// Hash over the behaviour of a simulation: two builds that behave alike have equal digests.
//
// A record is a kind, a virtual time and values. The hash is FNV-1a with 64 bits over all records
// in order. Nothing of a record depends on addresses in memory, on the wall clock or on the
// machine. Recording draws no random numbers and changes nothing in the simulation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>

#include "base/stats.h"
#include "base/time.h"

namespace fairlead::sim {

class Digest {
 public:
  // `kind` is a literal. The values of the record follow.
  Digest& begin(const char* kind, TimePoint when);
  Digest& number(std::uint64_t value);
  // Length and bytes.
  Digest& bytes(std::span<const std::byte> value);
  Digest& text(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }
  // The counters that are not 0, by name, so that a new counter which stays 0 changes nothing.
  Digest& stats(const WorkerStats& stats);

  std::uint64_t value() const { return hash_; }

  // Prints the hash after each record, to find the first one that differs.
  bool print_records = false;

 private:
  void mix(std::span<const std::byte> bytes);
  void print_last() const;

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  const char* kind_ = nullptr;
  TimePoint when_;
};

}  // namespace fairlead::sim
