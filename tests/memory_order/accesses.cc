// The accesses to shared memory that the code under test makes.
#include <cstring>
#include <utility>

#include "explored_atomic.h"
#include "explorer.h"

namespace explore {
namespace {

constexpr std::size_t kArenaBytes = 16 << 10;
alignas(64) std::byte g_arena[kArenaBytes];

const char* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      break;
  }
  return "seq_cst";
}

bool in_arena(const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  return byte >= g_arena && byte < g_arena + kArenaBytes;
}

std::size_t index_of(const void* at) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(at) - g_arena) / 8;
}

}  // namespace

std::uint64_t load_word(const void* word, std::memory_order order) {
  return Explorer::get().load(word, order);
}
void store_word(void* word, std::uint64_t value, std::memory_order order) {
  Explorer::get().store(word, value, order);
}
std::uint64_t exchange_word(void* word, std::uint64_t value, std::memory_order order) {
  return Explorer::get().exchange(word, value, order);
}
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  Explorer::get().copy(to, from, bytes);
}

std::byte* Explorer::allocate(std::size_t bytes) {
  std::byte* const at = g_arena + used_bytes_;
  used_bytes_ += (bytes + 63) / 64 * 64;
  if (used_bytes_ > kArenaBytes) fail("a scenario has more memory than the arena");
  return at;
}

void Explorer::share(const void* word, Role role, std::string name) {
  if (words_.size() == kLocationsMax) fail("a scenario has too many shared words");
  locations_[index_of(word)] = static_cast<int>(words_.size());
  words_.push_back({.name = std::move(name), .role = role, .users = 0});
}

void Explorer::forget_memory() {
  used_bytes_ = 0;
  words_.clear();
  locations_.assign(kArenaBytes / 8, -1);
  data_.resize(kArenaBytes / 8);
}

void Explorer::clear_memory() {
  std::memset(g_arena, 0, used_bytes_);
  for (auto& of_thread : last_loaded_) of_thread.fill(0);
  memory_.reset(words_.size());
}

int Explorer::location_of(const void* word) const {
  return in_arena(word) ? locations_[index_of(word)] : -1;
}

// Learns who uses the word.
bool Explorer::is_raced_for(unsigned location) {
  unsigned& users = words_[location].users;
  const unsigned with = users | 1U << thread_;
  if (users != 0 && with != users && (users & (users - 1)) == 0) learned_ = true;
  users = with;
  return (users & (users - 1)) != 0;
}

// Data: a conflicting access of another thread has to happen before this one.
void Explorer::touch(const void* from, std::size_t bytes, bool writes) {
  if (thread_ == kOutside || bytes == 0 || !in_arena(from)) return;
  const std::size_t last = index_of(static_cast<const std::byte*>(from) + bytes - 1);
  for (std::size_t i = index_of(from); i <= last; ++i) {
    Data& data = data_[i];
    if (data.execution != execution_) data = {.execution = execution_};
    bool ordered = data.written == 0 || memory_.happened(thread_, data.writer, data.written);
    for (unsigned t = 0; t < fibers_.size() && writes; ++t)
      ordered &= data.read[t] == 0 || memory_.happened(thread_, t, data.read[t]);
    if (!ordered) {
      note(std::string(writes ? "writes" : "reads") + " data that another thread still uses");
      return fail("data race: an access to a slot is not ordered after that of the other side");
    }
    if (writes) {
      data.writer = thread_;
      data.written = memory_.clock(thread_);
    } else {
      data.read[thread_] = memory_.clock(thread_);
    }
  }
}

void Explorer::copy(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false);
  touch(to, bytes, true);
  std::memcpy(to, from, bytes);
}

std::uint64_t Explorer::load(const void* word, std::memory_order order) {
  const int found = location_of(word);
  if (found < 0) {
    touch(word, 8, false);
    std::uint64_t value = 0;
    std::memcpy(&value, word, sizeof value);
    return value;
  }
  const auto location = static_cast<unsigned>(found);
  if (thread_ == kOutside) return memory_.last(location);
  if (const Mutant* const mutant = mutant_of(location, Op::kLoad, order, 1)) {
    if (mutant->instead == Instead::kRemembered) return memory_.known(thread_, location);
    order = mutant->weaker;
  }
  return last_loaded_[thread_][location] = read(location, order);
}

void Explorer::store(void* word, std::uint64_t value, std::memory_order order) {
  const int found = location_of(word);
  if (found < 0) {
    touch(word, 8, true);
    std::memcpy(word, &value, sizeof value);
    return;
  }
  const auto location = static_cast<unsigned>(found);
  if (thread_ == kOutside) return memory_.settle(location, value);
  if (const Mutant* const mutant = mutant_of(location, Op::kStore, order, value))
    order = mutant->weaker;
  write(location, value, order);
}

std::uint64_t Explorer::exchange(void* word, std::uint64_t value, std::memory_order order) {
  const auto location = static_cast<unsigned>(location_of(word));
  if (thread_ == kOutside) {
    const std::uint64_t before = memory_.last(location);
    memory_.settle(location, value);
    return before;
  }
  if (const Mutant* const mutant = mutant_of(location, Op::kExchange, order, value))
    return exchange_wrong(location, value, order, *mutant);
  return replace(location, value, order);
}

std::uint64_t Explorer::exchange_wrong(unsigned location, std::uint64_t value,
                                       std::memory_order order, const Mutant& mutant) {
  switch (mutant.instead) {
    case Instead::kStore: {
      const std::uint64_t known = memory_.known(thread_, location);
      write(location, value, mutant.weaker);
      return known;
    }
    case Instead::kLoadStore: {
      const std::uint64_t before = read(location, order);
      write(location, value, order);
      return before;
    }
    case Instead::kIfSame: {
      const std::uint64_t loaded = last_loaded_[thread_][location];
      const std::uint64_t before = replace(location, value, order);
      return before == loaded ? before : 0;
    }
    case Instead::kNothing:
    case Instead::kRemembered:
    case Instead::kOrder:
      break;
  }
  return replace(location, value, mutant.weaker);
}

const Mutant* Explorer::mutant_of(unsigned location, Op op, std::memory_order order,
                                  std::uint64_t value) const {
  if (mutant_ == nullptr || mutant_->instead == Instead::kNothing || mutant_->op != op ||
      mutant_->role != words_[location].role || mutant_->order != order)
    return nullptr;
  if (mutant_->of_zero && *mutant_->of_zero != (value == 0)) return nullptr;
  return mutant_;
}

std::uint64_t Explorer::read(unsigned location, std::memory_order order) {
  point(is_raced_for(location));
  const Access access{thread_, location, order};
  const auto& options = memory_.readable(access);
  const std::size_t index = options[options.size() == 1 ? 0 : choose(options.size())];
  const std::uint32_t id = memory_.message(location, index).id;
  const bool stale = index + 1 != memory_.count(location);
  const std::uint64_t value = memory_.load(access, index);
  record(location, id, value);
  note_access("loads", location, order, std::to_string(value) + (stale ? " (not the last)" : ""));
  return value;
}

void Explorer::write(unsigned location, std::uint64_t value, std::memory_order order) {
  point(is_raced_for(location) && order == std::memory_order_seq_cst);
  const Access access{thread_, location, order};
  const auto& options = memory_.writable(access);
  const std::size_t behind = options[options.size() == 1 ? 0 : choose(options.size())];
  const bool early = behind + 1 != memory_.count(location);
  memory_.store(access, behind, value);
  record(location, 0, value);
  note_access("stores", location, order,
              std::to_string(value) + (early ? " (not as the last)" : ""));
}

std::uint64_t Explorer::replace(unsigned location, std::uint64_t value, std::memory_order order) {
  point(is_raced_for(location));
  const Access access{thread_, location, order};
  const auto& options = memory_.replaceable(access);
  const std::size_t index = options[options.size() == 1 ? 0 : choose(options.size())];
  const std::uint32_t id = memory_.message(location, index).id;
  const std::uint64_t before = memory_.exchange(access, index, value);
  record(location, id, value);
  note_access("exchanges", location, order,
              std::to_string(before) + " for " + std::to_string(value));
  return before;
}

// What the thread did decides what it does next.
void Explorer::record(unsigned location, std::uint32_t message, std::uint64_t value) {
  std::uint64_t& history = fibers_[thread_].history;
  history = mix(mix(history, std::uint64_t{location} << 32 | message), value);
}

void Explorer::note_access(const char* what, unsigned location, std::memory_order order,
                           const std::string& values) {
  if (tracing_)
    note(std::string(what) + " " + words_[location].name + ", " + name_of(order) + ": " + values);
}

}  // namespace explore
