// The rings by themselves: what one side puts there comes out once, in order and whole.
#include <array>
#include <optional>

#include "scenarios.h"
#include "worker.h"

namespace explore {
namespace {

using fairlead::QpNumber;

// Messages of one and of two slots in a ring of four, so that one of them goes around the end. Each
// side tries a number of times. What is left is read at the end.
class RingScenario : public Scenario {
 public:
  const char* name() const override { return "ring"; }
  std::vector<const char*> threads() const override { return {"producer", "consumer"}; }
  void declare(Explorer& explorer) override {
    memory_ = &explorer.place<shm::RingMemory>();
    explorer.share(&memory_->tail, Role::kTail, "tail");
    explorer.share(&memory_->head, Role::kHead, "head");
  }
  void begin() override {
    producer_.emplace(*memory_);
    consumer_.emplace(*memory_);
    posted_ = received_ = 0;
  }
  void run(unsigned thread) override {
    constexpr int kProducerTries = 6, kConsumerTries = 4;
    for (int i = 0; thread == 0 && i < kProducerTries; ++i) produce();
    for (int i = 0; thread == 1 && i < kConsumerTries; ++i) consume();
  }
  void end(unsigned) override {
    consume();
    if (received_ != posted_) Explorer::get().fail("a message is left");
  }

 private:
  static constexpr std::array<std::size_t, 4> kBytes{8, 56, 64, 8};

  void produce() {
    if (posted_ == kBytes.size()) return;
    const std::size_t bytes = kBytes[posted_];
    if (shm::slots_for(bytes) > producer_->free_slots()) {
      if (!producer_->refresh()) Explorer::get().fail("head of the ring");
      if (shm::slots_for(bytes) > producer_->free_slots()) return;
    }
    std::array<std::byte, 64> message{};
    for (std::size_t i = 0; i < bytes; ++i) message[i] = pattern(posted_, i);
    producer_->push({QpNumber(posted_), QpNumber(1), static_cast<std::uint32_t>(bytes)},
                    std::span(message).first(bytes));
    ++posted_;
    producer_->publish();
  }

  void consume() {
    if (!consumer_->refresh()) Explorer::get().fail("tail of the ring");
    bool any = false;
    while (!consumer_->empty()) {
      const auto header = consumer_->front();
      if (!header || header->destination != QpNumber(received_) ||
          header->length_bytes != kBytes[received_])
        return Explorer::get().fail("the header is not that of the next message");
      std::array<std::byte, 64> message{};
      consumer_->copy_front(std::span(message).first(header->length_bytes));
      for (std::size_t i = 0; i < header->length_bytes; ++i)
        if (message[i] != pattern(received_, i))
          Explorer::get().fail("the bytes are not those of the next message");
      ++received_;
      consumer_->pop(*header);
      any = true;
    }
    if (any) consumer_->publish();
  }

  shm::RingMemory* memory_ = nullptr;
  std::optional<shm::RingProducer> producer_;
  std::optional<shm::RingConsumer> consumer_;
  unsigned posted_ = 0, received_ = 0;
};

// The same for control messages, in a ring of two.
class ControlScenario : public Scenario {
 public:
  const char* name() const override { return "control_ring"; }
  std::vector<const char*> threads() const override { return {"producer", "consumer"}; }
  void declare(Explorer& explorer) override {
    memory_ = &explorer.place<shm::ControlRingMemory>();
    explorer.share(&memory_->tail, Role::kControlTail, "control.tail");
    explorer.share(&memory_->head, Role::kControlHead, "control.head");
  }
  void begin() override {
    producer_.emplace(*memory_);
    consumer_.emplace(*memory_);
    posted_ = received_ = 0;
  }
  void run(unsigned thread) override {
    constexpr int kProducerTries = 6, kConsumerTries = 5;
    for (int i = 0; thread == 0 && i < kProducerTries; ++i) produce();
    for (int i = 0; thread == 1 && i < kConsumerTries; ++i) consume();
  }
  void end(unsigned) override {
    while (consumer_->waiting()) consume();
    if (received_ != posted_) Explorer::get().fail("a message is left");
  }

 private:
  static constexpr unsigned kMessages = 4;

  static shm::ControlMessage message(unsigned number) {
    return {.kind = shm::ControlMessage::Kind::kAnnounce,
            .rkey = fairlead::RemoteKey(number),
            .address = fairlead::RemoteAddress(number * 3),
            .size_bytes = number * 5,
            .buffer = {number * 7, number * 11}};
  }

  void produce() {
    if (posted_ == kMessages) return;
    const auto pushed = producer_->push(message(posted_));
    if (pushed)
      ++posted_;
    else if (pushed.error().code != fairlead::Errc::kWouldBlock)
      Explorer::get().fail("head of the control ring");
  }

  void consume() {
    if (!consumer_->waiting()) return;
    const auto front = consumer_->front();
    if (!front || *front != message(received_))
      return Explorer::get().fail("a control message is not the next one");
    ++received_;
    consumer_->pop();
  }

  shm::ControlRingMemory* memory_ = nullptr;
  std::optional<shm::ControlProducer> producer_;
  std::optional<shm::ControlConsumer> consumer_;
  unsigned posted_ = 0, received_ = 0;
};

}  // namespace

void add_ring_scenarios(Scenarios& to) { add<RingScenario, ControlScenario>(to); }

}  // namespace explore
