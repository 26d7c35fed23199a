// Small programs whose outcomes are known, so that the explorer itself is tested.
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "explored_atomic.h"
#include "scenarios.h"

namespace explore {
namespace {

struct Words {
  Atomic<std::uint64_t> x, y;
  std::uint64_t data;
};
using Results = std::array<std::uint64_t, 4>;
using Thread = std::function<void(Words&, Results&)>;

struct Program {
  const char* name;
  std::vector<Thread> threads;
  Results outcome;  // the one that is looked for; with -1 for "any"
  bool reachable;
  bool final_words = false;  // the outcome ends with what x and y hold at last
};

constexpr std::uint64_t kAny = ~std::uint64_t{0};
constexpr Results kBothOld{0, 0, kAny, kAny}, kNewThenOld{1, 0, kAny, kAny},
    kOnesAtLast{kAny, kAny, 1, 1};

class Litmus : public Scenario {
 public:
  explicit Litmus(const Program& program) : program_(program) {}
  const char* name() const override { return program_.name; }
  std::vector<const char*> threads() const override {
    static constexpr std::array<const char*, kThreadsMax> kNames{"1", "2", "3", "4"};
    return {kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(program_.threads.size())};
  }
  void declare(Explorer& explorer) override {
    words_ = &explorer.place<Words>();
    explorer.share(&words_->x, Role::kPlain, "x");
    explorer.share(&words_->y, Role::kPlain, "y");
  }
  void begin() override { results_.fill(0); }
  void run(unsigned thread) override { program_.threads[thread](*words_, results_); }
  void end(unsigned) override {
    if (program_.final_words) {
      results_[2] = words_->x.load(kRelaxed);
      results_[3] = words_->y.load(kRelaxed);
    }
    bool same = true;
    for (std::size_t i = 0; i < results_.size(); ++i)
      same &= program_.outcome[i] == kAny || program_.outcome[i] == results_[i];
    reached_ |= same;
  }
  bool reached() const { return reached_; }

 private:
  const Program& program_;
  Words* words_ = nullptr;
  Results results_{};
  bool reached_ = false;
};

Thread put(std::memory_order order, bool into_x, std::uint64_t value = 1) {
  return [=](Words& w, Results&) { (into_x ? w.x : w.y).store(value, order); };
}

// Puts 1 into one word, then looks at the other.
Thread put_and_look(std::memory_order put, std::memory_order look, bool into_x, bool exchange) {
  return [=](Words& w, Results& r) {
    auto& mine = into_x ? w.x : w.y;
    if (exchange)
      mine.exchange(1, put);
    else
      mine.store(1, put);
    r[into_x ? 0 : 1] = (into_x ? w.y : w.x).load(look);
  };
}

Thread look_at_both(std::memory_order order, bool x_first, std::size_t first_result) {
  return [=](Words& w, Results& r) {
    r[first_result] = (x_first ? w.x : w.y).load(order);
    r[first_result + 1] = (x_first ? w.y : w.x).load(order);
  };
}

Thread put_both(std::memory_order order, bool x_first, std::uint64_t first, std::uint64_t second) {
  return [=](Words& w, Results&) {
    (x_first ? w.x : w.y).store(first, order);
    (x_first ? w.y : w.x).store(second, order);
  };
}

std::vector<Program> store_buffering() {
  const auto both = [](std::memory_order put, std::memory_order look, bool exchange) {
    return std::vector<Thread>{put_and_look(put, look, true, exchange),
                               put_and_look(put, look, false, exchange)};
  };
  return {
      {"SB, relaxed", both(kRelaxed, kRelaxed, false), kBothOld, true},
      {"SB, release and acquire", both(kRelease, kAcquire, false), kBothOld, true},
      {"SB, exchanges acq_rel", both(kAcqRel, kSeqCst, true), kBothOld, true},
      {"SB, exchanges seq_cst, loads acquire", both(kSeqCst, kAcquire, true), kBothOld, true},
      {"SB, seq_cst", both(kSeqCst, kSeqCst, false), kBothOld, false},
      {"SB, exchanges seq_cst", both(kSeqCst, kSeqCst, true), kBothOld, false},
  };
}

std::vector<Program> message_passing() {
  const auto pass = [](std::memory_order put, std::memory_order look) {
    return std::vector<Thread>{put_both(put, true, 1, 1), look_at_both(look, false, 0)};
  };
  return {
      {"MP, relaxed", pass(kRelaxed, kRelaxed), kNewThenOld, true},
      {"MP, release and relaxed", pass(kRelease, kRelaxed), kNewThenOld, true},
      {"MP, relaxed and acquire", pass(kRelaxed, kAcquire), kNewThenOld, true},
      {"MP, release and acquire", pass(kRelease, kAcquire), kNewThenOld, false},
      {"MP, seq_cst store before a relaxed one",
       {[](Words& w, Results&) {
          w.x.store(1, kSeqCst);
          w.y.store(1, kRelaxed);
        },
        [](Words& w, Results& r) {
          r[0] = w.y.load(kRelaxed);
          r[1] = w.x.load(kSeqCst);
        }},
       kNewThenOld,
       true},
      {"MP over an exchange that continues a release",
       {put_both(kRelease, true, 1, 1), [](Words& w, Results&) { w.y.exchange(2, kRelaxed); },
        look_at_both(kAcquire, false, 0)},
       {2, 0, kAny, kAny},
       true},  // if the exchange came first
  };
}

std::vector<Program> coherence() {
  const auto cross = [](std::memory_order order) {
    return std::vector<Thread>{put_both(order, true, 1, 2), put_both(order, false, 1, 2)};
  };
  return {
      {"CoRR",
       {put(kRelaxed, true),
        [](Words& w, Results& r) {
          r[0] = w.x.load(kRelaxed);
          r[1] = w.x.load(kRelaxed);
        }},
       kNewThenOld,
       false},
      {"CoWR",
       {put(kRelaxed, true, 2),
        [](Words& w, Results& r) {
          w.x.store(1, kRelaxed);
          r[0] = w.x.load(kRelaxed);
        }},
       {2, kAny, 1, kAny},
       false,
       true},
      {"2+2W, relaxed", cross(kRelaxed), kOnesAtLast, true, true},
      {"2+2W, seq_cst", cross(kSeqCst), kOnesAtLast, false, true},
      {"two exchanges give the same",
       {[](Words& w, Results& r) { r[0] = w.x.exchange(1, kRelaxed); },
        [](Words& w, Results& r) { r[1] = w.x.exchange(2, kRelaxed); }},
       kBothOld,
       false},
  };
}

std::vector<Program> more_threads() {
  const auto four = [](std::memory_order order) {
    return std::vector<Thread>{put(order, true), put(order, false), look_at_both(order, true, 0),
                               look_at_both(order, false, 2)};
  };
  const auto load_buffering = [](bool x_first) {
    return [=](Words& w, Results& r) {
      r[x_first ? 0 : 1] = (x_first ? w.x : w.y).load(kRelaxed);
      (x_first ? w.y : w.x).store(1, kRelaxed);
    };
  };
  const auto chain = [](std::memory_order order) {
    return std::vector<Thread>{put(kRelaxed, true),
                               [order](Words& w, Results& r) {
                                 r[0] = w.x.load(order);
                                 w.y.store(r[0], order == kAcquire ? kRelease : kRelaxed);
                               },
                               look_at_both(order, false, 1)};
  };
  return {
      {"IRIW, acquire", four(kAcquire), {1, 0, 1, 0}, true},
      {"IRIW, seq_cst", four(kSeqCst), {1, 0, 1, 0}, false},
      {"WRC, relaxed", chain(kRelaxed), {1, 1, 0, kAny}, true},
      {"WRC, release and acquire", chain(kAcquire), {1, 1, 0, kAny}, false},
      {"LB, relaxed (not modelled)",
       {load_buffering(true), load_buffering(false)},
       {1, 1, kAny, kAny},
       false},
  };
}

// Data is reported when a conflicting access is not ordered.
unsigned check_data_races() {
  unsigned wrong = 0;
  for (const bool ordered : {false, true}) {
    const Program program{ordered ? "data, ordered" : "data, not ordered",
                          {[](Words& w, Results&) {
                             const std::uint64_t value = 1;
                             copy_bytes(&w.data, &value, sizeof value);
                             w.x.store(1, kRelease);
                           },
                           [ordered](Words& w, Results& r) {
                             if (w.x.load(ordered ? kAcquire : kRelaxed) == 1)
                               copy_bytes(&r[0], &w.data, 8);
                           }},
                          {},
                          false};
    Litmus litmus(program);
    if (Explorer::get().explore(litmus, nullptr, false).failed != ordered) continue;
    std::printf("memory_order: FAILED litmus %s\n", program.name);
    ++wrong;
  }
  return wrong;
}

}  // namespace

unsigned check_litmus(unsigned& programs) {
  unsigned wrong = check_data_races();
  programs = 2;
  for (const auto& group : {store_buffering(), message_passing(), coherence(), more_threads()}) {
    for (const Program& program : group) {
      Litmus litmus(program);
      const Verdict verdict = Explorer::get().explore(litmus, nullptr, false);
      ++programs;
      if (!verdict.failed && litmus.reached() == program.reachable) continue;
      ++wrong;
      std::printf("memory_order: FAILED litmus %s: the outcome is %s\n", program.name,
                  litmus.reached() ? "reached" : "not reached");
    }
  }
  return wrong;
}

}  // namespace explore
