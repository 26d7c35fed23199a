#include "memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace explore {
namespace {

constexpr Stamp kGap = Stamp{1} << 32;  // between messages, for those that come between later

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

std::uint64_t pair_digest(unsigned location, std::uint32_t first, std::uint32_t second) {
  return mix(location + 1, std::uint64_t{first} << 32 | second);
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x632be59bd9b4e019ULL);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
  return h ^ (h >> 31);
}

void View::join(const View& other, std::size_t locations) {
  for (std::size_t i = 0; i < locations; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  for (std::size_t i = 0; i < kThreadsMax; ++i) clocks[i] = std::max(clocks[i], other.clocks[i]);
  ordered |= other.ordered;
}

void Memory::reset(std::size_t locations) {
  locations_ = locations;
  digest_ = 0;
  present_.reset();
  for (std::size_t i = 0; i < locations; ++i) {
    messages_[i].clear();
    messages_[i].push_back({.stamp = kGap});
    ordered_[i].clear();
  }
  for (unsigned i = 0; i < kThreadsMax; ++i) {
    threads_[i] = Thread();
    threads_[i].view.seen.fill(kGap);
    threads_[i].view.clocks[i] = 1;
  }
}

std::uint64_t Memory::known(unsigned thread, unsigned location) const {
  const Stamp seen = threads_[thread].view.seen[location];
  const auto& all = messages_[location];
  return std::find_if(all.begin(), all.end(), [&](const Message& m) { return m.stamp == seen; })
      ->value;
}

// `ordered_beside` makes the access beside message `i`.
template <class Make>
const std::vector<std::size_t>& Memory::options(const Access& access, Make ordered_beside) {
  options_.clear();
  const auto& all = messages_[access.location];
  for (std::size_t i = all.size(); i-- != 0;) {
    if (all[i].stamp < threads_[access.thread].view.seen[access.location]) break;
    const Ordered it = ordered_beside(i);
    // Nothing comes between a read-modify-write and what it has read.
    if (it.writes && i + 1 != all.size() && all[i + 1].follows) continue;
    if (possible(access, it)) options_.push_back(i);
  }
  return options_;
}

const std::vector<std::size_t>& Memory::readable(const Access& access) {
  const auto& all = messages_[access.location];
  return options(access,
                 [&](std::size_t i) { return Ordered{.reads = true, .read = all[i].stamp}; });
}

const std::vector<std::size_t>& Memory::replaceable(const Access& access) {
  const auto& all = messages_[access.location];
  return options(access, [&](std::size_t i) {
    return Ordered{.reads = true,
                   .writes = true,
                   .read = all[i].stamp,
                   .written = stamp_behind(access.location, i)};
  });
}

const std::vector<std::size_t>& Memory::writable(const Access& access) {
  return options(access, [&](std::size_t i) {
    return Ordered{.writes = true, .written = stamp_behind(access.location, i)};
  });
}

std::uint64_t Memory::load(const Access& access, std::size_t message) {
  const Message& read = messages_[access.location][message];
  acquire(access, read);
  add(access, {.reads = true, .read = read.stamp});
  return read.value;
}

std::uint64_t Memory::exchange(const Access& access, std::size_t message, std::uint64_t value) {
  const Message read = messages_[access.location][message];
  const Stamp stamp = stamp_behind(access.location, message);
  acquire(access, read);
  add(access, {.reads = true, .writes = true, .read = read.stamp, .written = stamp});
  insert(access, message, value, &read);
  return read.value;
}

void Memory::store(const Access& access, std::size_t behind, std::uint64_t value) {
  add(access, {.writes = true, .written = stamp_behind(access.location, behind)});
  insert(access, behind, value, nullptr);
}

void Memory::acquire(const Access& access, const Message& message) {
  View& view = threads_[access.thread].view;
  if (message.releases && acquires(access.order)) view.join(message.view, locations_);
  Stamp& seen = view.seen[access.location];
  seen = std::max(seen, message.stamp);
}

Stamp Memory::stamp_behind(unsigned location, std::size_t index) const {
  const auto& all = messages_[location];
  if (index + 1 == all.size()) return all[index].stamp + kGap;
  const Stamp gap = all[index + 1].stamp - all[index].stamp;
  if (gap < 2) {
    std::fputs("memory_order: no stamp between two messages\n", stderr);
    std::abort();
  }
  return all[index].stamp + gap / 2;
}

// `read` is the message that a read-modify-write has read: its release reaches those who acquire
// the new one.
void Memory::insert(const Access& access, std::size_t behind, std::uint64_t value,
                    const Message* read) {
  auto& all = messages_[access.location];
  Thread& thread = threads_[access.thread];
  Message message{.stamp = stamp_behind(access.location, behind),
                  .value = value,
                  .id = (access.thread + 1) << 16 | ++thread.writes,
                  .follows = read != nullptr};
  thread.view.seen[access.location] = message.stamp;
  if (releases(access.order)) {
    message.releases = true;
    message.view = thread.view;
    ++thread.view.clocks[access.thread];
  }
  if (read != nullptr && read->releases) {
    message.releases = true;
    message.view.join(read->view, locations_);
  }
  const std::uint32_t before = all[behind].id;
  if (behind + 1 != all.size()) {
    const std::uint32_t after = all[behind + 1].id;
    digest_ -= pair_digest(access.location, before, after);
    digest_ += pair_digest(access.location, message.id, after);
  }
  digest_ += pair_digest(access.location, before, message.id);
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(behind) + 1, message);
}

// The accesses to the same location that stand directly before or behind `it` in S.
Memory::Edges Memory::edges(const Access& access, const Ordered& it) const {
  Edges edges;
  const View& view = threads_[access.thread].view;
  if (const unsigned own = threads_[access.thread].ordered; own != 0)
    edges.before.set(std::size_t{access.thread} * kOrderedMax + own - 1);
  for (const Ordered& other : ordered_[access.location]) {
    const bool before = (other.writes && it.writes && other.written < it.written) ||
                        (other.reads && it.writes && other.read < it.written) ||
                        (other.writes && it.reads && other.written == it.read) ||
                        view.ordered.test(other.id);
    const bool after = (other.writes && it.writes && other.written > it.written) ||
                       (other.writes && it.reads && other.written > it.read);
    if (before) edges.before.set(other.id);
    if (after) edges.after.set(other.id);
  }
  return edges;
}

Accesses Memory::reached_from(const Accesses& first) const {
  Accesses reached = first;
  for (std::size_t i = first._Find_first(); i < first.size(); i = first._Find_next(i))
    reached |= reached_[i];
  return reached;
}

bool Memory::possible(const Access& access, const Ordered& it) const {
  if (access.order != std::memory_order_seq_cst) return true;
  const Edges found = edges(access, it);
  return (reached_from(found.after) & found.before).none();
}

void Memory::add(const Access& access, Ordered it) {
  if (access.order != std::memory_order_seq_cst) return;
  const Edges found = edges(access, it);
  Thread& thread = threads_[access.thread];
  if (thread.ordered == kOrderedMax) {
    std::fputs("memory_order: too many sequentially consistent accesses\n", stderr);
    std::abort();
  }
  it.id = std::size_t{access.thread} * kOrderedMax + thread.ordered++;
  Accesses reached = reached_from(found.after);
  reached_[it.id] = reached;
  reached.set(it.id);
  for (std::size_t i = present_._Find_first(); i < present_.size(); i = present_._Find_next(i))
    if (found.before.test(i) || (reached_[i] & found.before).any()) reached_[i] |= reached;
  present_.set(it.id);
  thread.view.ordered.set(it.id);
  ordered_[access.location].push_back(it);
}

}  // namespace explore
