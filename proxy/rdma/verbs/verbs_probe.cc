#include "rdma/verbs/verbs_probe.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "rdma/verbs/device_judgement.h"
#include "rdma/verbs/verbs_handles.h"

namespace fairlead::rdma::verbs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(500);
constexpr std::size_t kProbeBytes = 4096;

// Remembers the descriptors and waits for one of them.
class Waiter final : public FdWatcher {
 public:
  Result<void> watch_readable(int fd, Trigger) override {
    fds_[count_++ % fds_.size()] = {fd, POLLIN, 0};
    return {};
  }
  void unwatch(int) override { count_ = 0; }
  void wait(Device& device, Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const std::size_t count = std::min(count_, fds_.size());
    if (left <= 0 || ::poll(fds_.data(), count, static_cast<int>(left)) <= 0) return;
    for (std::size_t i = 0; i < count; ++i)
      if (fds_[i].revents != 0) device.handle_readable(fds_[i].fd);
  }

 private:
  std::array<pollfd, 4> fds_{};
  std::size_t count_ = 0;
};

Result<bool> send_across(Device& device, const Port& port, Waiter& waiter) {
  const auto own = SMC_TRY(device.create_protection_domain());
  const auto other = SMC_TRY(device.create_protection_domain());
  const auto buffer = SMC_TRY(device.allocate_buffer(*own, kProbeBytes, BufferUse::kMessages));
  const auto queue = SMC_TRY(device.create_shared_receive_queue(*own, 1));
  QueuePairOptions options;
  options.domain = other.get();
  options.receive_queue = queue.get();
  options.port = port.number;
  options.send_requests = 1;
  const auto left = SMC_TRY(device.create_queue_pair(options));
  const auto right = SMC_TRY(device.create_queue_pair(options));
  const auto address = [&](const QueuePair& queue_pair) {
    return PeerEndpoint{.gid = port.gid,
                        .mac = port.mac,
                        .queue_pair = queue_pair.number(),
                        .first_psn = queue_pair.first_psn(),
                        .mtu = port.mtu,
                        .direct = true};
  };
  SMC_TRY(left->connect(address(*right)));
  SMC_TRY(right->connect(address(*left)));
  const ReceiveRequest receive{WorkId{1}, buffer.get(), 0, kProbeBytes};
  SMC_TRY(queue->post({&receive, 1}));
  const std::array<std::byte, kShortMessageBytes> message{};
  WorkRequest send;
  send.message = message;
  SMC_TRY(left->post({&send, 1}));
  device.ring_doorbells();
  for (const auto until = Clock::now() + kPatience; Clock::now() < until;) {
    Completion completion;
    while (device.poll({&completion, 1}) != 0)
      if (completion.kind == Completion::Kind::kReceive ||
          completion.status != CompletionStatus::kSuccess)
        return completion.status == CompletionStatus::kSuccess;
    if (device.arm()) waiter.wait(device, until);
    device.disarm();
  }
  return false;
}

}  // namespace

bool receive_queue_crosses_domains(Device& device, const Port& port) {
  Waiter waiter;
  if (!device.set_watcher(&waiter)) return false;
  const Result<bool> crosses = send_across(device, port, waiter);
  (void)device.set_watcher(nullptr);
  // Completions of the failed queue pairs have no further use.
  Completion completion;
  while (device.poll({&completion, 1}) != 0) {
  }
  while (device.poll_async_event()) {
  }
  return crosses && *crosses;
}

Result<void> try_reliable_connection(ibv_context& context) {
  const DomainHandle domain(ibv_alloc_pd(&context));
  if (domain == nullptr) return system_error("ibv_alloc_pd", errno);
  const CompletionQueueHandle completions(ibv_create_cq(&context, 2, nullptr, nullptr, 0));
  if (completions == nullptr) return system_error("ibv_create_cq", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions.get();
  wanted.recv_cq = completions.get();
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  errno = 0;
  const QueuePairHandle queue_pair(ibv_create_qp(domain.get(), &wanted));
  if (queue_pair == nullptr) return judge_trial("ibv_create_qp", errno);
  return {};
}

}  // namespace fairlead::rdma::verbs
