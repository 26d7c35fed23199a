// A device in memory, and whom it reaches, for tests of one part of proxy/relay. It does nothing by
// itself: it records what is asked of it. What it answers, and what arrives, is set by the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma/device.h"
#include "relay/group/reachability.h"
#include "wire/llc.h"

namespace fairlead::relay {

inline Gid gid_of(std::uint8_t host) {
  Gid gid;
  gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host};
  return gid;
}

inline Mac mac_of(std::uint8_t host) { return {{2, 0, 0, 0, 0, host}}; }

// Can be used; its GID is that of the host with this number.
inline rdma::Port active_port(std::uint8_t number, std::uint8_t host) {
  rdma::Port port;
  port.number = PortNumber{number};
  port.state = rdma::PortState::kActive;
  port.gid = gid_of(host);
  port.mac = mac_of(host);
  return port;
}

// Why something was refused, which it has to be.
template <class T>
Error error_of(const Result<T>& refused) {
  EXPECT_FALSE(refused);
  return refused ? Error{} : refused.error();
}

// Memory of several devices is the same bytes under other keys.
class FakeBuffer final : public rdma::RegisteredBuffer {
 public:
  FakeBuffer(std::vector<FakeBuffer*>& registered, const rdma::ProtectionDomain& with,
             std::shared_ptr<std::vector<std::byte>> memory, bool is_shared,
             rdma::BufferUse buffer_use, std::uint32_t key)
      : use(buffer_use),
        domain(&with),
        shared(is_shared),
        memory_(std::move(memory)),
        key_(key),
        registered_(registered) {
    registered_.push_back(this);
  }
  ~FakeBuffer() override {
    EXPECT_TRUE(shared || memory_.use_count() == 1) << "another device still has its bytes";
    std::erase(registered_, this);
  }
  std::span<std::byte> bytes() const override { return *memory_; }
  LocalKey lkey() const override { return LocalKey{key_}; }
  RemoteKey rkey() const override { return RemoteKey{key_}; }
  RemoteAddress address() const override {
    return RemoteAddress{reinterpret_cast<std::uintptr_t>(memory_->data())};
  }
  const std::shared_ptr<std::vector<std::byte>>& memory() const { return memory_; }

  const rdma::BufferUse use;
  const rdma::ProtectionDomain* const domain;
  const bool shared;  // the bytes are those of a buffer of another device

 private:
  std::shared_ptr<std::vector<std::byte>> memory_;
  std::uint32_t key_;
  std::vector<FakeBuffer*>& registered_;
};

class FakeReceiveQueue final : public rdma::SharedReceiveQueue {
 public:
  Result<void> post(std::span<const rdma::ReceiveRequest> requests) override {
    if (post_error) return *post_error;
    posted.insert(posted.end(), requests.begin(), requests.end());
    batches.push_back(requests.size());
    return {};
  }
  Result<void> arm_limit(std::uint32_t count) override {
    limit = count;
    return {};
  }

  std::vector<rdma::ReceiveRequest> posted;
  std::vector<std::size_t> batches;  // requests of each post()
  std::uint32_t limit = 0;
  std::optional<Error> post_error;
};

class FakePageReturn final : public rdma::PageReturn {
 public:
  explicit FakePageReturn(const State& state) : state_(state) {}
  State settle() noexcept override { return state_; }

 private:
  const State& state_;
};

class FakeQueuePair final : public rdma::QueuePair {
 public:
  // A request as it was posted, with its message kept.
  struct Posted {
    rdma::WorkRequest request;
    std::vector<std::byte> message;
  };
  // What the peer has granted, by its key.
  struct RemoteBuffer {
    RemoteAddress address;
    std::vector<std::byte> bytes;
  };

  FakeQueuePair(std::vector<FakeQueuePair*>& alive, std::uint32_t number,
                const rdma::QueuePairOptions& with)
      : options(with), room(with.send_requests), number_(number), alive_(alive) {
    alive_.push_back(this);
  }
  ~FakeQueuePair() override {
    if (when_destroyed) when_destroyed();
    std::erase(alive_, this);
  }
  QpNumber number() const override { return QpNumber{number_}; }
  PacketSeq first_psn() const override { return PacketSeq{number_ + 1000}; }

  Result<void> connect(const rdma::PeerEndpoint& to) override {
    if (connect_error) return *connect_error;
    peer = to;
    return {};
  }
  Result<void> post(std::span<const rdma::WorkRequest> requests) override {
    if (post_error) return *post_error;
    if (requests.size() > room) return Error{Errc::kExhausted, "send requests"};
    room -= static_cast<std::uint32_t>(requests.size());
    batches.push_back(requests.size());
    for (const rdma::WorkRequest& request : requests)
      posted.push_back({request, {request.message.begin(), request.message.end()}});
    return {};
  }
  std::uint32_t send_room() const override { return room; }
  Result<std::span<std::byte>> remote_memory(const rdma::RemoteSlice& slice,
                                             std::size_t length_bytes) override {
    if (remote_error) return *remote_error;
    const auto found = remote.find(slice.rkey);
    if (found == remote.end()) return Error{Errc::kNotFound, "rkey"};
    const std::uint64_t offset = slice.address.value - found->second.address.value;
    std::vector<std::byte>& bytes = found->second.bytes;
    if (offset > bytes.size() || length_bytes > bytes.size() - offset)
      return Error{Errc::kNotFound, "range"};
    return std::span(bytes).subspan(offset, length_bytes);
  }
  void release_remote_memory(RemoteKey rkey) override { released.push_back(rkey); }
  void fail() override { failed = true; }
  // The message of this type that was posted last.
  template <class Body>
  std::optional<Body> last() const {
    std::optional<Body> found;
    for (const Posted& each : posted) {
      const auto llc = wire::decode_llc(each.message);
      if (!llc) continue;
      if (const Body* const body = std::get_if<Body>(&llc->body)) found = *body;
    }
    return found;
  }

  const rdma::QueuePairOptions options;
  std::uint32_t room;
  std::optional<rdma::PeerEndpoint> peer;  // once connected
  std::vector<Posted> posted;
  std::vector<std::size_t> batches;  // requests of each post()
  std::map<RemoteKey, RemoteBuffer> remote;
  std::vector<RemoteKey> released;
  bool failed = false;
  std::optional<Error> connect_error, post_error, remote_error;
  std::function<void()> when_destroyed;

 private:
  std::uint32_t number_;
  std::vector<FakeQueuePair*>& alive_;
};

class FakeDevice final : public rdma::Device {
 public:
  explicit FakeDevice(std::string name, std::vector<rdma::Port> with = {active_port(1, 1)})
      : port_list(std::move(with)), name_(std::move(name)) {
    able.send_requests_max = 256;
    able.receive_requests_max = 1024;
  }

  const std::string& name() const override { return name_; }
  const rdma::Capabilities& capabilities() const override { return able; }
  std::span<const rdma::Port> ports() const override { return port_list; }

  Result<std::unique_ptr<rdma::ProtectionDomain>> create_protection_domain() override {
    if (domain_error) return *domain_error;
    return std::make_unique<rdma::ProtectionDomain>();
  }
  Result<std::unique_ptr<rdma::SharedReceiveQueue>> create_shared_receive_queue(
      rdma::ProtectionDomain&, std::uint32_t) override {
    if (queue_error) return *queue_error;
    return std::make_unique<FakeReceiveQueue>();
  }
  Result<std::unique_ptr<rdma::RegisteredBuffer>> allocate_buffer(rdma::ProtectionDomain& domain,
                                                                  std::size_t size_bytes,
                                                                  rdma::BufferUse use) override {
    if (buffer_error && size_bytes > allocated_despite_error) return *buffer_error;
    return make_buffer(domain, std::make_shared<std::vector<std::byte>>(size_bytes), false, use);
  }
  Result<std::unique_ptr<rdma::RegisteredBuffer>> share_buffer(rdma::ProtectionDomain& domain,
                                                               const rdma::RegisteredBuffer& other,
                                                               rdma::BufferUse use) override {
    if (share_error && shares_before_error-- <= 0) return *share_error;
    return make_buffer(domain, dynamic_cast<const FakeBuffer&>(other).memory(), true, use);
  }
  Result<std::unique_ptr<rdma::QueuePair>> create_queue_pair(
      const rdma::QueuePairOptions& options) override {
    if (queue_pair_error) return *queue_pair_error;
    auto made = std::make_unique<FakeQueuePair>(queue_pairs, ++last_number_, options);
    made->connect_error = connect_error;
    return std::unique_ptr<rdma::QueuePair>(std::move(made));
  }
  std::size_t registrable_bytes() const override { return registrable; }
  bool take_port(PortNumber port, rdma::PortState state) override {
    for (rdma::Port& own : port_list)
      if (own.number == port) {
        own.state = state;
        return true;
      }
    return false;
  }

  std::unique_ptr<rdma::PageReturn> return_pages(std::span<std::byte> view) override {
    page_returns.push_back(view);
    if (refuses_returns) return nullptr;
    return std::make_unique<FakePageReturn>(pages);
  }
  std::size_t poll(std::span<rdma::Completion> into) override {
    const std::size_t count = std::min(into.size(), completions.size());
    std::copy_n(completions.begin(), count, into.begin());
    completions.erase(completions.begin(),
                      completions.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  std::optional<rdma::AsyncEvent> poll_async_event() override { return next(events); }
  std::optional<rdma::PeerFault> poll_fault() override { return next(faults); }
  bool pending() const noexcept override { return !completions.empty(); }
  bool arm() override {
    armed = completions.empty();
    return armed;
  }
  void disarm() override { armed = false; }
  void ring_doorbells() override { ++doorbells; }
  Result<void> set_watcher(FdWatcher* by) override {
    watcher = by;
    if (watcher_error) return *watcher_error;
    return {};
  }
  void handle_readable(int fd) override { readable.push_back(fd); }

  std::vector<std::span<std::byte>> page_returns;  // that were asked for
  bool refuses_returns = false;
  rdma::PageReturn::State pages = rdma::PageReturn::State::kReturned;  // as settle() says
  rdma::Capabilities able;
  std::vector<rdma::Port> port_list;
  // What the device is asked for fails with these.
  std::optional<Error> domain_error, queue_error, buffer_error, share_error, queue_pair_error,
      watcher_error;
  std::optional<Error> connect_error;  // of queue pairs that are made from now on
  std::size_t registrable = std::numeric_limits<std::size_t>::max();
  int shares_before_error = 0;              // that succeed before share_error
  std::size_t allocated_despite_error = 0;  // a buffer of this size is small enough
  // What arrives.
  std::deque<rdma::Completion> completions;
  std::deque<rdma::AsyncEvent> events;
  std::deque<rdma::PeerFault> faults;
  // Those that exist, in the order in which they were made.
  std::vector<FakeBuffer*> buffers;
  std::vector<FakeQueuePair*> queue_pairs;
  FdWatcher* watcher = nullptr;
  bool armed = false;
  int doorbells = 0;
  std::vector<int> readable;

 private:
  template <class T>
  static std::optional<T> next(std::deque<T>& from) {
    if (from.empty()) return std::nullopt;
    const T first = from.front();
    from.pop_front();
    return first;
  }
  std::unique_ptr<rdma::RegisteredBuffer> make_buffer(
      const rdma::ProtectionDomain& domain, std::shared_ptr<std::vector<std::byte>> memory,
      bool shared, rdma::BufferUse use) {
    return std::make_unique<FakeBuffer>(buffers, domain, std::move(memory), shared, use,
                                        ++last_key_);
  }

  std::string name_;
  std::uint32_t last_number_ = 0;
  std::uint32_t last_key_ = 0;
};

class FakeReachability final : public Reachability {
 public:
  explicit FakeReachability(bool leaves = true) : leaves_(leaves) {}

  const char* kind() const override { return kind_name; }
  bool leaves_node() const override { return leaves_; }
  wire::VendorArea vendor_area() const override { return vendor; }
  std::optional<Gid> client_gid(const wire::Proposal&, std::uint8_t) const override {
    return client;
  }
  std::optional<rdma::Port> roce_v1_port(const rdma::Port&, const Place&) const override {
    return v1_port;
  }
  bool server_reachable(const Gid& gid) const override {
    return std::find(servers.begin(), servers.end(), gid) != servers.end();
  }
  bool withheld(const Place&) const override { return encrypted; }
  std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                        const Place& place) const override {
    asked_for_peer = place.peer_gid;
    if (encrypted) return std::nullopt;
    return Reachability::choose_port(ports, place);
  }
  std::optional<bool> direct(const Gid&, const Gid&) const override { return straight; }
  PnetOfPort pnet(const rdma::Port& port) const override {
    const auto found = pnets.find(port.number);
    return found == pnets.end() ? PnetOfPort{} : PnetOfPort{found->second, "configuration"};
  }
  bool in_network(const rdma::Port&) const override { return ours; }

  const char* kind_name = "verbs";
  wire::VendorArea vendor;
  std::optional<Gid> client;
  std::optional<rdma::Port> v1_port;
  std::vector<Gid> servers;
  bool encrypted = false;  // the path that the device would pass by
  bool ours = true;        // the network of its ports
  std::optional<bool> straight = true;
  std::map<PortNumber, std::string> pnets;         // ports with the same one are alike
  mutable std::optional<Gid> asked_for_peer = {};  // by the last choose_port()

 private:
  bool leaves_;
};

}  // namespace fairlead::relay
