// Cost of a message of the size of a CDC on the shared-memory device: posting, and polling it on
// the other side. Both devices are in one thread, so no time is spent on waking and waiting.
#include <benchmark/benchmark.h>

#include <vector>

#include "conformance/endpoint.h"
#include "conformance/shm_device_pair.h"

namespace fairlead::rdma::shm {
namespace {

class Rig {
 public:
  Rig() {
    for (ShmDevice* device : {left_.get(), right_.get()}) {
      auto domain = std::move(device->create_protection_domain().value());
      auto queue = std::move(device->create_shared_receive_queue(*domain, kReceives).value());
      auto buffer =
          std::move(device->allocate_buffer(*domain, 1 << 20, rdma::BufferUse::kRmb).value());
      auto queue_pair = std::move(
          device->create_queue_pair({.domain = domain.get(), .receive_queue = queue.get()})
              .value());
      domains_.push_back(std::move(domain));
      queues_.push_back(std::move(queue));
      buffers_.push_back(std::move(buffer));
      queue_pairs_.push_back(std::move(queue_pair));
    }
    connect(*queue_pairs_[0], *right_, *queue_pairs_[1]);
    connect(*queue_pairs_[1], *left_, *queue_pairs_[0]);
    for (std::size_t i = 0; i < kReceives; ++i) refill(i);
    poll(*left_);
    poll(*right_);
  }
  ~Rig() { queue_pairs_.clear(); }

  std::size_t poll(ShmDevice& device) {
    Completion batch[64];
    const std::size_t count = device.poll(batch);
    for (std::size_t i = 0; i < count; ++i)
      if (batch[i].kind == Completion::Kind::kReceive)
        refill(static_cast<std::size_t>(batch[i].id));
    return count;
  }

  ShmDevice& left() { return *left_; }
  ShmDevice& right() { return *right_; }
  QueuePair& queue_pair() { return *queue_pairs_[0]; }
  const RegisteredBuffer& local() { return *buffers_[0]; }
  const RegisteredBuffer& remote() { return *buffers_[1]; }

 private:
  static constexpr std::uint32_t kReceives = 256;

  static void connect(QueuePair& from, ShmDevice& device, const QueuePair& to) {
    const PeerEndpoint peer{.gid = device.ports()[0].gid, .queue_pair = to.number()};
    if (!from.connect(peer)) std::abort();
  }
  void refill(std::size_t slot) {
    const ReceiveRequest request{WorkId(slot), buffers_[1].get(), slot * 64, 64};
    if (!queues_[1]->post(std::span(&request, 1))) std::abort();
  }

  TestFabric fabric_;
  std::unique_ptr<ShmDevice> left_ = open_device(fabric_, 1), right_ = open_device(fabric_, 2);
  std::vector<std::unique_ptr<ProtectionDomain>> domains_;
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers_;
  std::vector<std::unique_ptr<SharedReceiveQueue>> queues_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;
};

// Items are messages: posted, doorbell checked, received, refilled, and completed.
void send_and_poll(benchmark::State& state) {
  Rig rig;
  const auto batch = static_cast<std::size_t>(state.range(0));
  std::vector<WorkRequest> chain(batch, send_request(kAnyMessage));
  chain.back().signaled = true;
  for (auto _ : state) {
    if (!rig.queue_pair().post(chain)) std::abort();
    rig.left().ring_doorbells();
    std::size_t count = 0;
    while (count < batch) count += rig.poll(rig.right());
    rig.right().ring_doorbells();
    while (rig.poll(rig.left()) == 0) {
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(send_and_poll)->Arg(1)->Arg(8)->Arg(32);

void look_for_work(benchmark::State& state) {
  Rig rig;
  for (auto _ : state) benchmark::DoNotOptimize(rig.right().pending());
}
BENCHMARK(look_for_work);

void find_remote_memory(benchmark::State& state) {
  Rig rig;
  const RemoteSlice slice = at(rig.remote());
  for (auto _ : state) benchmark::DoNotOptimize(rig.queue_pair().remote_memory(slice, 4096));
}
BENCHMARK(find_remote_memory);

void arm_and_disarm(benchmark::State& state) {
  Rig rig;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rig.right().arm());
    rig.right().disarm();
  }
}
BENCHMARK(arm_and_disarm);

}  // namespace
}  // namespace fairlead::rdma::shm

BENCHMARK_MAIN();
