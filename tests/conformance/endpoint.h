// One side of a conformance test: a device with a domain, a receive queue and queue pairs, and
// everything that the device has reported so far. On a device without shared receive queues each
// queue pair has its own, with as many requests as the shared one would have.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "conformance/device_pair.h"
#include "conformance/epoll_watcher.h"
#include "rdma/device.h"

namespace fairlead::rdma {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t size_bytes, unsigned seed) {
  Bytes bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i)
    bytes[i] = static_cast<std::byte>((seed * 131 + i * 7 + (i >> 8)) & 0xff);
  return bytes;
}

// For tests to which the contents do not matter.
inline constexpr std::array<std::byte, 44> kAnyMessage{};

class Endpoint {
 public:
  static constexpr std::uint32_t kReceiveBytes = kMessageBytesMax;

  explicit Endpoint(Device& device, std::uint32_t receives_max = 256)
      : device_(&device), receives_max_(receives_max) {
    (void)device_->set_watcher(&watcher_);
    domain_ = std::move(device.create_protection_domain().value());
    add_receives();
    memory_ = std::move(device.allocate_buffer(*domain_, 1 << 20, BufferUse::kRmb).value());
  }
  ~Endpoint() {
    queue_pairs.clear();
    (void)device_->set_watcher(nullptr);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Device& device() { return *device_; }
  EpollWatcher& watcher() { return watcher_; }
  ProtectionDomain& domain() { return *domain_; }
  // The receive queue of the first queue pair, if each has its own.
  SharedReceiveQueue& receive_queue() { return *receives_.front().queue; }
  RegisteredBuffer& memory() { return *memory_; }  // 1 MiB, for both ends of writes

  QueuePair& add_queue_pair(PortNumber port = PortNumber(1), std::uint32_t send_requests = 64,
                            ProtectionDomain* domain = nullptr,
                            SharedReceiveQueue* receive_queue = nullptr) {
    if (receive_queue == nullptr) receive_queue = &queue_for_another();
    queue_pairs.push_back(
        std::move(device_
                      ->create_queue_pair({.domain = domain != nullptr ? domain : domain_.get(),
                                           .receive_queue = receive_queue,
                                           .port = port,
                                           .send_requests = send_requests})
                      .value()));
    return *queue_pairs.back();
  }

  PeerEndpoint address_of(const QueuePair& queue_pair, PortNumber port = PortNumber(1)) const {
    const Port& local = device_->ports()[port.value - 1u];
    return {.gid = local.gid,
            .mac = local.mac,
            .queue_pair = queue_pair.number(),
            .first_psn = queue_pair.first_psn(),
            .mtu = local.mtu};
  }

  // Posts receive requests with consecutive slots of the receive buffer; the id tells both.
  Result<void> post_receives(std::uint32_t count, std::uint32_t length = kReceiveBytes) {
    for (std::uint32_t i = 0; i < receives_.size(); ++i)
      if (auto posted = post_receives(i, count, length); !posted) return posted;
    posted_ = std::min(posted_ + count, receives_max_);
    return {};
  }

  // One turn of an event loop: rings, polls, takes events. True when there was anything.
  bool turn() {
    Completion batch[8];
    device_->ring_doorbells();
    const std::size_t count = device_->poll(batch);
    for (const Completion& completion : std::span(batch).first(count)) take(completion);
    bool any = count != 0;
    while (auto event = device_->poll_async_event()) {
      events.push_back(*event);
      any = true;
    }
    device_->ring_doorbells();
    return any;
  }

  std::size_t count_events(AsyncEvent::Kind kind) const {
    return static_cast<std::size_t>(
        std::ranges::count(events, kind, [](const AsyncEvent& event) { return event.kind; }));
  }
  bool has_fatal(const QueuePair& queue_pair) const {
    return std::ranges::any_of(events, [&](const AsyncEvent& event) {
      return (event.kind == AsyncEvent::Kind::kQueuePairFatal ||
              event.kind == AsyncEvent::Kind::kQueuePairError) &&
             event.queue_pair == queue_pair.number();
    });
  }
  // Completions of send requests, of one queue pair.
  std::vector<Completion> sent(const QueuePair& queue_pair) const {
    std::vector<Completion> some;
    for (const Completion& completion : sends)
      if (completion.queue_pair == queue_pair.number()) some.push_back(completion);
    return some;
  }

  struct Message {
    QpNumber queue_pair;
    CompletionStatus status;
    Bytes bytes;
  };

  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<Completion> sends;  // in the order polled
  std::vector<Message> received;  // in the order polled
  std::vector<AsyncEvent> events;
  bool refill = true;  // post a receive request for each one used
  bool refill_failed = false;

 private:
  struct Receives {
    std::unique_ptr<RegisteredBuffer> buffer;
    std::unique_ptr<SharedReceiveQueue> queue;
    std::uint32_t next_slot = 0;
    bool used = false;
  };

  void add_receives() {
    Receives& made = receives_.emplace_back();
    made.queue = std::move(device_->create_shared_receive_queue(*domain_, receives_max_).value());
    made.buffer =
        std::move(device_
                      ->allocate_buffer(*domain_, std::size_t{receives_max_} * kReceiveBytes,
                                        BufferUse::kMessages)
                      .value());
  }
  SharedReceiveQueue& queue_for_another() {
    if (device_->capabilities().shared_receive_queues) return receive_queue();
    if (receives_.back().used) {
      add_receives();
      const auto index = static_cast<std::uint32_t>(receives_.size() - 1);
      if (!post_receives(index, posted_, kReceiveBytes)) refill_failed = true;
    }
    receives_.back().used = true;
    return *receives_.back().queue;
  }
  Result<void> post_receives(std::uint32_t index, std::uint32_t count, std::uint32_t length) {
    Receives& of = receives_[index];
    std::vector<ReceiveRequest> requests;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t slot = (of.next_slot + i) % receives_max_;
      requests.push_back({WorkId(index * receives_max_ + slot), of.buffer.get(),
                          std::size_t{slot} * kReceiveBytes, length});
    }
    auto posted = of.queue->post(requests);
    if (posted) of.next_slot = (of.next_slot + count) % receives_max_;
    return posted;
  }
  void take(const Completion& completion) {
    if (completion.kind == Completion::Kind::kSend) {
      sends.push_back(completion);
      return;
    }
    const auto number = static_cast<std::uint32_t>(completion.id);
    const std::size_t slot = number % receives_max_;
    Receives& of = receives_[number / receives_max_];
    const std::byte* at = of.buffer->bytes().data() + slot * kReceiveBytes;
    received.push_back(
        {completion.queue_pair, completion.status, Bytes(at, at + completion.length_bytes)});
    if (!refill) return;
    const ReceiveRequest again{completion.id, of.buffer.get(), slot * kReceiveBytes, kReceiveBytes};
    if (!of.queue->post(std::span(&again, 1))) refill_failed = true;
  }

  Device* device_;
  EpollWatcher watcher_;
  std::uint32_t receives_max_;
  std::uint32_t posted_ = 0;  // by the test, into each queue
  std::unique_ptr<ProtectionDomain> domain_;
  std::unique_ptr<RegisteredBuffer> memory_;
  std::vector<Receives> receives_;  // one where it is shared
};

inline WorkRequest send_request(std::span<const std::byte> message, bool signaled = false,
                                std::uint64_t id = 0) {
  return {
      .kind = WorkRequest::Kind::kSend, .signaled = signaled, .id = WorkId(id), .message = message};
}

inline WorkRequest write_request(const RegisteredBuffer& from, std::size_t offset,
                                 std::uint32_t length, RemoteSlice to, bool signaled = false,
                                 std::uint64_t id = 0) {
  return {.kind = WorkRequest::Kind::kWrite,
          .signaled = signaled,
          .id = WorkId(id),
          .from = {&from, offset, length},
          .to = to};
}

inline RemoteSlice at(const RegisteredBuffer& buffer, std::size_t offset = 0) {
  return {buffer.rkey(), RemoteAddress(buffer.address().value + offset)};
}

inline WorkRequest any_send(bool signaled = false, std::uint64_t id = 0) {
  return send_request(std::span(kAnyMessage), signaled, id);
}

inline Result<void> post(QueuePair& queue_pair, const WorkRequest& request) {
  return queue_pair.post(std::span(&request, 1));
}

}  // namespace fairlead::rdma
