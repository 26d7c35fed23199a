#include "explorer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace explore {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr unsigned kStepsMax = 600;  // of an execution

}  // namespace

Explorer& Explorer::get() {
  static Explorer explorer;
  return explorer;
}

bool Explorer::Known::add(std::uint64_t digest) {
  constexpr std::size_t kFirstSlots = std::size_t{1} << 12;
  if (slots_.empty()) slots_.resize(kFirstSlots);
  if (used_ * 2 >= slots_.size()) {
    std::vector<std::uint64_t> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const std::uint64_t one : old)
      if (one != 0) add(one);
  }
  digest |= 1;  // 0 is an empty slot
  std::size_t at = (digest >> 1) & (slots_.size() - 1);
  while (slots_[at] != 0) {
    if (slots_[at] == digest) return false;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = digest;
  ++used_;
  return true;
}

void Explorer::Known::clear() {
  slots_.clear();
  used_ = 0;
}

Verdict Explorer::explore(Scenario& scenario, const Mutant* mutant, bool trace) {
  prepare(scenario, mutant);
  Verdict verdict;
  search(verdict);
  if (verdict.failed && trace) find_shortest(verdict);
  return verdict;
}

void Explorer::prepare(Scenario& scenario, const Mutant* mutant) {
  scenario_ = &scenario;
  mutant_ = mutant;
  forget_memory();
  scenario.declare(*this);
  names_ = scenario.threads();
  fibers_.resize(names_.size());
  for (Fiber& fiber : fibers_)
    if (!fiber.stack) fiber.stack = std::make_unique<std::byte[]>(kStackBytes);
  switches_max_ = ~0U;
  tracing_ = false;
}

// The search learns which threads use a word. It starts again when a second thread uses a word that
// seemed to belong to one.
void Explorer::search(Verdict& verdict) {
  do {
    known_.clear();
    decisions_.clear();
    learned_ = false;
    do {
      execute();
      ++verdict.interleavings;
      verdict.complete += complete_;
    } while (!failed_ && !learned_ && next_decisions());
  } while (!failed_ && learned_);
  verdict.failed = failed_;
  verdict.reason = reason_;
}

void Explorer::find_shortest(Verdict& verdict) {
  Verdict shortest;
  for (unsigned most = 0; !shortest.failed; ++most) {
    switches_max_ = most;
    search(shortest);
  }
  known_.clear();
  trace_.clear();
  tracing_ = true;
  execute();
  tracing_ = false;
  verdict.reason = reason_;
  verdict.trace = trace_;
  verdict.switches = switches_max_;
}

// One execution: the decisions so far, and then the first option of each decision.
void Explorer::execute() {
  ++execution_;
  position_ = 0;
  steps_ = switches_ = rung_ = 0;
  complete_ = failed_ = false;
  clear_memory();
  thread_ = kOutside;
  scenario_->begin();
  starting_ = true;
  for (unsigned i = 0; i < fibers_.size() && !failed_; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.finished = false;
    fiber.waits_for = 0;
    fiber.history = mix(i, 0);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Explorer::enter, 0);
    thread_ = i;
    swapcontext(&outside_, &fiber.context);
  }
  starting_ = false;
  thread_ = kOutside;
  if (!failed_) pick();
  thread_ = kOutside;
  if (!complete_ || failed_) return;
  unsigned blocked = 0;
  for (unsigned i = 0; i < fibers_.size(); ++i)
    if (!fibers_[i].finished) blocked |= 1U << i;
  scenario_->end(blocked);
}

// False when all have been tried.
bool Explorer::next_decisions() {
  while (!decisions_.empty() && decisions_.back().taken + 1 == decisions_.back().options)
    decisions_.pop_back();
  if (decisions_.empty()) return false;
  ++decisions_.back().taken;
  return true;
}

void Explorer::enter() {
  Explorer& explorer = get();
  explorer.scenario_->run(explorer.thread_);
  explorer.finish();
}

void Explorer::finish() {
  Fiber& fiber = fibers_[thread_];
  fiber.finished = true;
  fiber.history = mix(fiber.history, 1);
  if (starting_) leave();
  pick();
}

bool Explorer::can_go_on(unsigned thread) const {
  const Fiber& fiber = fibers_[thread];
  return !fiber.finished && (fiber.waits_for == 0 || (fiber.waits_for & rung_) != 0);
}

std::size_t Explorer::choose(std::size_t options) {
  if (position_ == decisions_.size())
    decisions_.push_back({.taken = 0, .options = static_cast<std::uint16_t>(options)});
  return decisions_[position_++].taken;
}

std::uint64_t Explorer::digest() const {
  std::uint64_t digest = memory_.digest() + mix(rung_, 2);
  for (const Fiber& fiber : fibers_) digest += fiber.history;
  return switches_max_ == ~0U ? digest : mix(digest, std::uint64_t{switches_} << 8 | thread_);
}

// Every thread stands before an access or a wait, or has finished. Returns in the thread that goes
// on, or, outside of the threads, when none does.
void Explorer::pick() {
  if (position_ == decisions_.size() && !known_.add(digest())) {
    if (thread_ == kOutside) return;
    leave();
  }
  std::array<unsigned, kThreadsMax> able{};
  std::size_t count = 0;
  const unsigned from = thread_;
  const bool stays = from != kOutside && can_go_on(from);
  if (stays) able[count++] = from;
  for (unsigned i = 0; i < fibers_.size(); ++i)
    if (i != from && can_go_on(i)) able[count++] = i;
  if (count == 0) {
    complete_ = true;
    if (from == kOutside) return;
    leave();
  }
  if (stays && switches_ == switches_max_) count = 1;
  const unsigned next = able[count == 1 ? 0 : choose(count)];
  if (next == from) return;
  switches_ += stays;
  thread_ = next;
  swapcontext(from == kOutside ? &outside_ : &fibers_[from].context, &fibers_[next].context);
}

// Ends the execution, or the start of a thread that has finished already. The fiber is not resumed.
void Explorer::leave() {
  setcontext(&outside_);
  SMC_UNREACHABLE();
}

// Before an access of a thread. `visible`: others may go first.
void Explorer::point(bool visible) {
  if (++steps_ > kStepsMax) fail("an execution of more steps than are allowed");
  if (!visible) return;
  if (starting_)
    swapcontext(&fibers_[thread_].context, &outside_);
  else
    pick();
}

void Explorer::fail(std::string reason) {
  if (!failed_) reason_ = std::move(reason);
  failed_ = true;
  if (thread_ != kOutside) leave();
}

void Explorer::note(const std::string& what) {
  if (tracing_) trace_.push_back(std::string(names_[thread_]) + ": " + what);
}

void Explorer::ring(unsigned bell) {
  if (thread_ == kOutside) {  // an event that is there before the threads run
    rung_ |= 1U << bell;
    return;
  }
  point(true);
  rung_ |= 1U << bell;
  fibers_[thread_].history = mix(fibers_[thread_].history, bell + 3);
  note("rings bell " + std::to_string(bell));
}

unsigned Explorer::wait(unsigned bells) {
  fibers_[thread_].waits_for = bells;
  note("waits for a bell");
  point(true);
  fibers_[thread_].waits_for = 0;
  const unsigned heard = rung_ & bells;
  rung_ &= ~heard;
  fibers_[thread_].history = mix(fibers_[thread_].history, std::uint64_t{heard} << 8);
  note("is woken");
  return heard;
}

}  // namespace explore
