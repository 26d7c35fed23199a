// Runs the threads of a scenario as fibers, one access to shared memory after the other, and tries
// every decision: which thread goes on, and which message an access meets.
//
// The search is depth first. Each execution starts from the beginning, repeats the decisions so
// far and changes the last one. A point that another execution has reached with the same history of
// each thread and the same modification orders is not followed again (compared by 64 bits). Two
// kinds of accesses are no point of decision between threads: those to words that only one thread
// uses, and stores that are not sequentially consistent. Such a store only adds a message that
// others may ignore.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "mutants.h"

namespace explore {

class Explorer;

class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual const char* name() const = 0;
  virtual std::vector<const char*> threads() const = 0;
  // Once: names the shared words and the data.
  virtual void declare(Explorer& explorer) = 0;
  // Before the threads of each execution; the memory is zeroed.
  virtual void begin() {}
  // May allocate nothing that only its own frames hold: an execution can end anywhere.
  virtual void run(unsigned thread) = 0;
  // When no thread can go on. `blocked` has a bit for each thread that waits for a bell.
  virtual void end(unsigned blocked) = 0;
};

struct Verdict {
  bool failed = false;
  std::string reason;
  std::vector<std::string> trace;
  std::uint64_t interleavings = 0;  // executions, each followed to its end or to a known point
  std::uint64_t complete = 0;       // those followed to their end
  unsigned switches = 0;            // of threads that could have gone on, in the trace
};

class Explorer {
 public:
  static Explorer& get();

  // To the end, or to the first failure. `trace`: then looks for a failure with the fewest switches
  // between threads, and describes it.
  Verdict explore(Scenario& scenario, const Mutant* mutant, bool trace);

  // For Scenario::declare(). Memory that is zeroed before each execution.
  template <class T>
  T& place() {
    static_assert(alignof(T) <= 64);
    return *reinterpret_cast<T*>(allocate(sizeof(T)));
  }
  // The word is read and written by threads that race. All other words of placed memory are data:
  // conflicting accesses to them have to be ordered by happens-before.
  void share(const void* word, Role role, std::string name);

  // What the words call.
  std::uint64_t load(const void* word, std::memory_order order);
  void store(void* word, std::uint64_t value, std::memory_order order);
  std::uint64_t exchange(void* word, std::uint64_t value, std::memory_order order);
  void copy(void* to, const void* from, std::size_t bytes);

  // Bells are bits. A ring gives nothing to who hears it but the wake-up.
  void ring(unsigned bell);
  // Blocks until one of `bells` is rung; returns those that were, which are silent then.
  unsigned wait(unsigned bells);

  // Does not return to a thread.
  void fail(std::string reason);
  bool has(Step step) const { return mutant_ != nullptr && mutant_->step == step; }

 private:
  static constexpr unsigned kOutside = kThreadsMax;  // before and after the threads
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool finished = false;
    unsigned waits_for = 0;  // bells
    std::uint64_t history = 0;
  };
  struct Decision {
    std::uint16_t taken = 0, options = 1;
  };
  struct Word {
    std::string name;
    Role role = Role::kPlain;
    unsigned users = 0;  // threads, of all executions so far
  };
  struct Data {
    std::uint64_t execution = 0;
    unsigned writer = 0;
    std::uint32_t written = 0;
    std::array<std::uint32_t, kThreadsMax> read{};
  };
  class Known {  // digests of points
   public:
    bool add(std::uint64_t digest);
    void clear();

   private:
    std::vector<std::uint64_t> slots_;
    std::size_t used_ = 0;
  };

  std::byte* allocate(std::size_t bytes);
  void forget_memory();
  void clear_memory();
  void prepare(Scenario& scenario, const Mutant* mutant);
  void search(Verdict& verdict);
  void execute();
  bool next_decisions();
  void find_shortest(Verdict& verdict);
  static void enter();
  void finish();
  bool can_go_on(unsigned thread) const;
  void pick();
  [[noreturn]] void leave();
  std::size_t choose(std::size_t options);
  void point(bool visible);
  std::uint64_t digest() const;
  int location_of(const void* word) const;
  bool is_raced_for(unsigned location);
  void touch(const void* from, std::size_t bytes, bool writes);
  std::uint64_t exchange_wrong(unsigned location, std::uint64_t value, std::memory_order order,
                               const Mutant& mutant);
  std::uint64_t read(unsigned location, std::memory_order order);
  void write(unsigned location, std::uint64_t value, std::memory_order order);
  std::uint64_t replace(unsigned location, std::uint64_t value, std::memory_order order);
  const Mutant* mutant_of(unsigned location, Op op, std::memory_order order,
                          std::uint64_t value) const;
  void record(unsigned location, std::uint32_t message, std::uint64_t value);
  void note(const std::string& what);
  void note_access(const char* what, unsigned location, std::memory_order order,
                   const std::string& values);

  Scenario* scenario_ = nullptr;
  const Mutant* mutant_ = nullptr;
  Memory memory_;
  std::size_t used_bytes_ = 0;
  std::vector<Word> words_;
  std::vector<int> locations_;  // of each 8 bytes of the arena, -1 for data
  std::vector<Data> data_;
  std::array<std::array<std::uint64_t, kLocationsMax>, kThreadsMax> last_loaded_{};
  std::vector<Fiber> fibers_;
  std::vector<const char*> names_;
  ucontext_t outside_{};
  unsigned thread_ = kOutside;
  bool starting_ = false;
  unsigned rung_ = 0;
  std::vector<Decision> decisions_;
  std::size_t position_ = 0;
  Known known_;
  std::uint64_t execution_ = 0;
  unsigned steps_ = 0;
  unsigned switches_ = 0, switches_max_ = 0;
  bool complete_ = false, failed_ = false, learned_ = false, tracing_ = false;
  std::string reason_;
  std::vector<std::string> trace_;
};

}  // namespace explore
