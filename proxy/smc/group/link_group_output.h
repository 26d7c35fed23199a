// What a link group gives its owner: messages for the peer, tasks and events, each in a queue with
// a limit.
#pragma once

#include <optional>

#include "base/bounded_queue.h"
#include "smc/group/link_tasks.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline constexpr std::size_t kLlcQueueMax = 32;  // answers that a peer's requests can queue
inline constexpr std::size_t kGroupEventsMax = 16;

class LinkGroupOutput {
 public:
  explicit LinkGroupOutput(wire::LlcVersion version) : version_(version) {}

  wire::LlcVersion version() const { return version_; }
  // Dropped if full(): a peer that asks without taking the answers loses answers.
  void send(LinkIndex link, const wire::LlcBody& body);
  bool full() const { return llc_.full(); }
  // Events that can be repeated are dropped under a flood. kTerminated always finds room.
  void emit(const GroupEvent& event);
  void add_task(const LinkTask& task) { tasks_.push(task); }
  bool tasks_pending() const { return !tasks_.empty(); }

  std::optional<LlcToSend> poll_llc() { return poll(llc_); }
  std::optional<GroupEvent> poll_event() { return poll(events_); }
  std::optional<LinkTask> poll_task() { return poll(tasks_); }

 private:
  template <class T>
  static std::optional<T> poll(BoundedQueue<T>& queue) {
    if (queue.empty()) return std::nullopt;
    return queue.pop();
  }

  wire::LlcVersion version_;
  BoundedQueue<LinkTask> tasks_{kLinkTasksMax};
  BoundedQueue<LlcToSend> llc_{kLlcQueueMax};
  BoundedQueue<GroupEvent> events_{kGroupEventsMax};
};

}  // namespace fairlead::smc
