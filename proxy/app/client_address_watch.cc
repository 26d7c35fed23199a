#include "app/client_address_watch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/client_address_delivery.h"
#include "base/linux/peer_credentials.h"
#include "base/linux/record_socket.h"
#include "bpf/client_address_probe.h"

namespace fairlead {
namespace {

constexpr const char* kLogger = "client_address";

// Without a listener: until it is tried again.
constexpr Duration kListenRetry = std::chrono::seconds(1);

TimePoint now_() { return std::chrono::steady_clock::now(); }

}  // namespace

Result<std::unique_ptr<ClientAddressWatch>> ClientAddressWatch::start(Changed changed) {
  std::unique_ptr<ClientAddressWatch> watch(new ClientAddressWatch(std::move(changed)));
  SMC_TRY(watch->thread_.start([raw = watch.get()] { raw->run(); }));
  return watch;
}

void ClientAddressWatch::run() {
  for (;;) {
    if (!listener_) listen();
    std::array<pollfd, 2> waiting = {pollfd{listener_.descriptor(), POLLIN, 0},
                                     pollfd{node_.get(), POLLIN, 0}};
    const TimePoint until = now_() + (listener_ ? kClientAddressProbeInterval : kListenRetry);
    if (!thread_.wait(waiting, until)) return;
    if (now_() >= until && map_) probe();
    if (waiting[1].revents != 0) take_record();
    if (waiting[0].revents != 0) accept();
  }
}

void ClientAddressWatch::listen() {
  auto opened = UnixListener::open(UnixAddress::parse(kClientAddressSocket).value(),
                                   {.what = "bind to @fairlead-client-address"});
  if (opened) {
    listener_ = std::move(*opened);
    return listener_.close_with(closer_);
  }
  const std::string trouble = to_string(opened.error());
  if (trouble != trouble_)
    lines_.write(LogLevel::kWarn, kLogger, "no_socket", now_(),
                 [&](LogEvent& line) { line.field("what", trouble); });
  trouble_ = trouble;
}

// The latest one counts: the node side was replaced.
void ClientAddressWatch::accept() {
  if (closer_.full()) return listener_.close();
  auto connection = listener_.accept();
  // No descriptor is free. The listener would stay readable; the node side tries again.
  if (!connection && connection.error().code != Errc::kWouldBlock) listener_.close();
  // Only root gives descriptors: what another process passes could be anything.
  if (connection && is_peer_of_user(connection->get(), 0)) node_ = std::move(*connection);
}

void ClientAddressWatch::take_record() {
  std::array<std::byte, 64> record;
  if (closer_.full()) return node_.reset();
  auto received = receive_record(node_.get(), record, closer_);
  if (!received) {
    if (received.error().code != Errc::kWouldBlock) node_.reset();
    return;
  }
  const bool known =
      received->size_bytes >= kClientAddressRecord.size() &&
      std::equal(kClientAddressRecord.begin(), kClientAddressRecord.end(), record.begin());
  if (known && received->descriptors == 1) return adopt(std::move(received->fds[0]));
  refuse("a record of another format");
  node_.reset();
}

void ClientAddressWatch::adopt(ForeignDescriptor map) {
  const Result<std::uint32_t> id = bpf::map_id(map.get());
  if (!maps_.empty() && id && *id == bpf::map_id(maps_.back().get()).value_or(0)) return;
  auto opened = bpf::ClientAddressMap::open(map.get());
  if (!opened || maps_.size() >= kClientAddressMapsMax) {
    refuse(opened ? "more maps than one sidecar takes; restart it" : to_string(opened.error()));
    return;
  }
  maps_.push_back(std::move(map));
  map_.emplace(std::move(*opened));
  told_.reset();
  probe();
}

void ClientAddressWatch::refuse(const std::string& what) {
  lines_.write(LogLevel::kWarn, kLogger, "refused", now_(),
               [&](LogEvent& line) { line.field("what", what); });
}

void ClientAddressWatch::probe() {
  const Result<bool> works = bpf::client_address_works(*map_);
  if (works) return tell(*works, "the programs that the node side attached have no effect");
  tell(false, "the programs cannot be tried: " + to_string(works.error()));
}

void ClientAddressWatch::tell(bool works, const std::string& why) {
  if (told_ == works) return;
  if (changed_(works ? std::optional(maps_.back().get()) : std::nullopt, why)) told_ = works;
}

}  // namespace fairlead
