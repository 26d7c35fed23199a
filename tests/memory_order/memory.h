// Memory as C++20 and arm64 allow threads to see it: all messages of a location in modification
// order, and for each thread the oldest message that it may still read.
//
// This is RC11 (Lahav et al., PLDI 2017) run as a machine. The total order S of sequentially
// consistent accesses need not be the order of execution. It is kept as a graph: program order of
// each thread, and on each location modification order, reads-before and happens-before. An access
// that would close a cycle cannot happen. The standard asks for more, so that more executions are
// possible here than on any machine. Fences are not modelled, and nothing is read before it is
// written (no load buffering).
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace explore {

inline constexpr unsigned kThreadsMax = 4;
inline constexpr unsigned kLocationsMax = 24;
inline constexpr unsigned kOrderedMax = 48;  // sequentially consistent accesses of a thread

inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;
inline constexpr auto kAcqRel = std::memory_order_acq_rel;
inline constexpr auto kSeqCst = std::memory_order_seq_cst;

using Stamp = std::uint64_t;  // position in the modification order of a location
using Accesses = std::bitset<std::size_t{kThreadsMax} * kOrderedMax>;

// What a thread knows, and what a release gives to those that acquire it.
struct View {
  std::array<Stamp, kLocationsMax> seen{};          // oldest message that may still be read
  std::array<std::uint32_t, kThreadsMax> clocks{};  // steps of each thread that happen before
  Accesses ordered;                                 // sequentially consistent ones among them
  void join(const View& other, std::size_t locations);
};

struct Message {
  Stamp stamp = 0;
  std::uint64_t value = 0;
  std::uint32_t id = 0;   // the same in each execution in which the thread did the same before
  bool follows = false;   // of a read-modify-write that read the message before it
  bool releases = false;  // `view` is what an acquire gets
  View view;
};

struct Access {
  unsigned thread = 0;
  unsigned location = 0;
  std::memory_order order = std::memory_order_relaxed;
};

class Memory {
 public:
  // All locations hold 0, and all threads know that.
  void reset(std::size_t locations);

  // Indices of the messages that a load may read, or beside which a read-modify-write or a store
  // may put its own. The last of the modification order comes first.
  const std::vector<std::size_t>& readable(const Access& access);
  const std::vector<std::size_t>& replaceable(const Access& access);
  const std::vector<std::size_t>& writable(const Access& access);

  std::uint64_t load(const Access& access, std::size_t message);
  // Returns the value before.
  std::uint64_t exchange(const Access& access, std::size_t message, std::uint64_t value);
  void store(const Access& access, std::size_t behind, std::uint64_t value);

  // Before and after the threads run: the last message counts, and everybody knows it.
  std::uint64_t last(unsigned location) const { return messages_[location].back().value; }
  void settle(unsigned location, std::uint64_t value) { messages_[location].back().value = value; }

  const Message& message(unsigned location, std::size_t index) const {
    return messages_[location][index];
  }
  std::size_t count(unsigned location) const { return messages_[location].size(); }
  // What the thread saw last of a location.
  std::uint64_t known(unsigned thread, unsigned location) const;
  // The step of thread `by` at that clock happens before what `thread` does now.
  bool happened(unsigned thread, unsigned by, std::uint32_t clock) const {
    return thread == by || threads_[thread].view.clocks[by] >= clock;
  }
  std::uint32_t clock(unsigned thread) const { return threads_[thread].view.clocks[thread]; }
  // Stands for all modification orders.
  std::uint64_t digest() const { return digest_; }

 private:
  struct Thread {
    View view;
    std::uint32_t writes = 0;
    unsigned ordered = 0;
  };
  // One sequentially consistent access.
  struct Ordered {
    std::size_t id = 0;
    bool reads = false, writes = false;
    Stamp read = 0, written = 0;
  };
  struct Edges {
    Accesses before, after;
  };
  Edges edges(const Access& access, const Ordered& it) const;
  Accesses reached_from(const Accesses& first) const;
  bool possible(const Access& access, const Ordered& it) const;
  void add(const Access& access, Ordered it);
  Stamp stamp_behind(unsigned location, std::size_t index) const;
  template <class Make>
  const std::vector<std::size_t>& options(const Access& access, Make ordered_beside);
  void acquire(const Access& access, const Message& message);
  void insert(const Access& access, std::size_t behind, std::uint64_t value, const Message* read);

  std::size_t locations_ = 0;
  std::array<Thread, kThreadsMax> threads_;
  std::array<std::vector<Message>, kLocationsMax> messages_;
  std::array<std::vector<Ordered>, kLocationsMax> ordered_;
  std::array<Accesses, Accesses{}.size()> reached_;  // by each access in the graph of S
  Accesses present_;
  std::vector<std::size_t> options_;
  std::uint64_t digest_ = 0;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b);

}  // namespace explore
