// Workers that sleep when they find nothing, and wake each other. A worker that waits without
// end although it has not got all has lost a wake-up.
#include <array>

#include "scenarios.h"
#include "worker.h"

namespace explore {
namespace {

using Side = shm::Channel::Side;

class ChannelScenario : public Scenario {
 public:
  ChannelScenario(const char* name, std::vector<const char*> threads, unsigned channels)
      : name_(name), threads_(std::move(threads)), channels_(channels) {}
  const char* name() const override { return name_; }
  std::vector<const char*> threads() const override { return threads_; }
  void declare(Explorer& explorer) override {
    for (unsigned i = 0; i < channels_; ++i)
      placed_[i].place(explorer, channels_ == 1 ? "" : std::string(1, static_cast<char>('a' + i)));
  }
  void begin() override {
    workers_.clear();
    workers_.resize(threads_.size());
    join(0, 0, 1);
    prepare();
  }
  void end(unsigned blocked) override {
    for (unsigned i = 0; i < threads_.size(); ++i)
      if ((blocked >> i & 1U) != 0 && !may_rest(i))
        return Explorer::get().fail("a wake-up is lost: " + std::string(threads_[i]) +
                                    " waits without end");
  }

 protected:
  // The first two workers have a channel. What else a scenario begins with.
  virtual void prepare() {}
  // The thread may wait without end now.
  virtual bool may_rest(unsigned) { return false; }
  void join(unsigned channel, unsigned dialler, unsigned acceptor) {
    workers_[dialler].add(placed_[channel], Side::kDialler, 2 * channel, 2 * channel + 1);
    workers_[acceptor].add(placed_[channel], Side::kAcceptor, 2 * channel + 1, 2 * channel);
  }
  Worker& worker(unsigned thread) { return workers_[thread]; }
  static void send(Worker& worker) {
    (void)worker.post(0, 8, false);
    worker.ring_doorbells();
  }
  // Sends, and waits for the completion and for an answer.
  void ask(Worker& worker) {
    (void)worker.post(0, 8, true);
    work(worker, [&] { return worker.completed(0) == 1 && worker.received(0) == 1; });
  }
  // One turn of the worker after the other, until done() is true.
  template <class Done>
  void work(Worker& worker, Done done) {
    for (;;) {
      worker.poll();
      if (done()) return worker.ring_doorbells();
      worker.rest();
    }
  }

 private:
  const char* name_;
  std::vector<const char*> threads_;
  unsigned channels_;
  std::array<PlacedChannel, 2> placed_;
  std::vector<Worker> workers_;
};

// One worker sends, and the other sleeps until all is there.
class WakeUp : public ChannelScenario {
 public:
  WakeUp() : ChannelScenario("wake_up", {"sleeper", "producer"}, 1) {}
  void run(unsigned thread) override {
    constexpr unsigned kMessages = 3;
    Worker& own = worker(thread);
    if (thread == 0) return work(own, [&] { return own.received(0) == kMessages; });
    for (unsigned i = 0; i < kMessages; ++i) send(own);
  }
};

// Two of them send over channels of their own.
class TwoProducers : public ChannelScenario {
 public:
  TwoProducers() : ChannelScenario("two_producers", {"sleeper", "producer a", "producer b"}, 2) {}
  void prepare() override { join(1, 0, 2); }
  void run(unsigned thread) override {
    Worker& own = worker(thread);
    if (thread == 0) return work(own, [&] { return own.received(0) == 1 && own.received(1) == 1; });
    send(own);
  }
};

// A ring of four slots and messages of two: the producer has to wait for room.
class Room : public ChannelScenario {
 public:
  Room() : ChannelScenario("room", {"producer", "consumer"}, 1) {}
  void run(unsigned thread) override {
    constexpr unsigned kMessages = 3;
    Worker& own = worker(thread);
    if (thread == 1) return work(own, [&] { return own.received(0) == kMessages; });
    unsigned posted = 0;
    work(own, [&] {
      while (posted < kMessages && own.post(0, 56, false)) ++posted;
      return posted == kMessages;
    });
  }
};

// The waker frees a slot and later sends a message, so that it rings for two events. The sleeper
// wants both. Something else wakes it once, as a socket would.
class TwoKinds : public ChannelScenario {
 public:
  TwoKinds() : ChannelScenario("two_kinds", {"sleeper", "waker"}, 1) {}
  void prepare() override {
    constexpr unsigned kSocket = 8;
    worker(0).hear(kSocket);
    Explorer::get().ring(kSocket);
  }
  void run(unsigned thread) override {
    Worker& own = worker(thread);
    if (thread == 0) return ask(own);
    work(own, [&] { return own.received(0) == 1; });
    send(own);
  }
};

// The waker does both in one turn, and rings once.
class OneRing : public ChannelScenario {
 public:
  OneRing() : ChannelScenario("one_ring", {"sleeper", "waker"}, 1) {}
  void run(unsigned thread) override {
    Worker& own = worker(thread);
    if (thread == 0) return ask(own);
    bool posted = false;
    work(own, [&] {
      if (own.received(0) == 1 && !posted) posted = own.post(0, 8, false);
      return posted;
    });
  }
};

// The control ring is full, and one more message waits at the sender, which sleeps until there is
// room.
class Backlog : public ChannelScenario {
 public:
  Backlog() : ChannelScenario("backlog", {"sender", "receiver"}, 1) {}
  void prepare() override {
    for (unsigned i = 0; i <= shm::kControlSlots; ++i) worker(0).tell(0);
  }
  void run(unsigned thread) override {
    Worker& own = worker(thread);
    if (thread == 0) return work(own, [&] { return own.flushed(0); });
    own.poll();
    own.ring_doorbells();
  }
  bool may_rest(unsigned thread) override { return thread == 0 && worker(0).flushed(0); }
};

// A message does not overtake a control message, and both wake the receiver.
class Overtaking : public ChannelScenario {
 public:
  Overtaking() : ChannelScenario("overtaking", {"receiver", "sender"}, 1) {}
  void prepare() override { worker(0).expect_told_first(); }
  void run(unsigned thread) override {
    constexpr unsigned kEach = 2;
    Worker& own = worker(thread);
    if (thread == 0) return work(own, [&] { return own.received(0) == kEach; });
    for (unsigned i = 0; i < kEach; ++i) {
      own.tell(0);
      send(own);
    }
  }
};

}  // namespace

void add_channel_scenarios(Scenarios& to) {
  add<WakeUp, TwoProducers, Room, OneRing, TwoKinds, Backlog, Overtaking>(to);
}

}  // namespace explore
