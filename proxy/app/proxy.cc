// The composition root: parses the command line, builds the parts, connects them, runs and drains.
// Implementations are chosen here, in the files beside it, and in proxy/devices. The file is long
// because every part is built, connected and ended here.
#include "app/proxy.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "admin/server.h"
#include "app/client_address_setup.h"
#include "app/client_address_watch.h"
#include "app/command_line.h"
#include "app/connection_keeping.h"
#include "app/direct_paths.h"
#include "app/syn_option_setup.h"
#include "base/linux/descriptors.h"
#include "base/linux/stop_signals.h"
#include "base/log.h"
#include "base/random_id.h"
#include "config/dump.h"
#include "devices/device_factory.h"
#include "devices/local_subnets.h"
#include "relay/worker/worker_thread.h"
#include "wire/eid.h"

extern char** environ;

namespace fairlead {
namespace {

// Two sockets for each connection; further descriptors for devices, channels and probes.
constexpr std::size_t kDescriptorsPerConnection = 2;
constexpr std::size_t kDescriptorsBesides = 1024;

void log_error(const char* event, const Error& error) {
  LogEvent(LogLevel::kError, "main", event).field("what", to_string(error));
}

std::string host_name(const config::Config& config) {
  if (!config.smc.host_name.empty()) return config.smc.host_name;
  char name[64] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

// 1/kOutboundPart of limits.connections is reserved if both directions share it.
constexpr std::size_t kOutboundPart = 4;

relay::WorkerSettings settings_for(const config::Config& config, unsigned index, unsigned count) {
  relay::WorkerSettings settings;
  settings.index = index;
  settings.workers = count;
  settings.config = &config;
  settings.offer.peer_id = random_id<PeerId>();
  for (const std::string& text : config.smc.ueids)
    if (const Result<wire::Eid> ueid = wire::eid_from(text)) settings.offer.ueids.push_back(*ueid);
  settings.offer.version_1 = config.smc.version != config::SmcVersion::kTwo;
  settings.offer.version_2 = config.smc.version != config::SmcVersion::kOne;
  settings.subnets = LocalSubnets();
  settings.offer.max_connections = static_cast<std::uint8_t>(config.smc.max_connections_per_group);
  settings.offer.max_links = smc::kLinksPerGroupMax;  // less if there are fewer ports
  settings.offer.host_name = host_name(config);
  settings.limits.connections_max = (config.limits.connections + count - 1) / count;
  const auto has = [&config](Direction direction) {
    return std::any_of(config.listeners.begin(), config.listeners.end(),
                       [&](const auto& listener) { return listener.direction == direction; });
  };
  if (has(Direction::kInbound) && has(Direction::kOutbound))
    settings.limits.kept_for_outbound = settings.limits.connections_max / kOutboundPart;
  settings.limits.handshakes_max = (config.limits.handshakes + count - 1) / count;
  settings.limits.handshakes_per_peer_max = (config.limits.handshakes_per_peer + count - 1) / count;
  settings.memory_bytes = config.memory.limit / count;
  settings.seed = std::random_device{}();
  return settings;
}

class Proxy {
 public:
  Proxy(Startup startup, const DeviceTraits& traits)
      : config_(std::move(startup.config)), devices_(config_, traits) {}

  Result<void> build() {
    SynOptionSetup option = SMC_TRY(choose_option_program(config_));
    facts_.push_back(option.fact);
    if (may_change(config_, option))
      external_option_ = option.source == relay::OptionSource::kExternal;
    program_ = std::move(option.program);
    if (option.fact.status != admin::FactStatus::kOk) warn_no_option_program(option.fact);
    if (const auto fact = direct_.fact()) facts_.push_back(*fact);
    const unsigned count = config::worker_count(config_);
    for (unsigned i = 0; i < count; ++i) {
      relay::WorkerSettings settings = settings_for(config_, i, count);
      settings.destinations = direct_.destinations();
      workers_.push_back(SMC_TRY(relay::WorkerThread::create(
          std::move(settings), option.source, program_ ? &*program_ : nullptr, frames_offer_)));
    }
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
      devices_.give_to(worker->worker().devices());
    show_client_addresses();
    keeping_.take_back();
    SMC_TRY(listen());
    keeping_.give_to(workers_);
    return serve_admin();
  }

  void run() {
    keeping_.confirm();
    // The process before may have learned until now.
    if (relay::Destinations* const known = direct_.destinations()) known->forget_all();
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_) worker->start();
    if (const auto started = admin_ ? admin_->start() : Result<void>(); !started)
      log_error("admin", started.error());
    keeping_.start([waiting = ::pthread_self()] { (void)::pthread_kill(waiting, SIGTERM); });
    if (external_option_) {
      option_watch_.emplace(*external_option_,
                            [this](bool attached) { return set_external_option(attached); });
      if (const auto started = option_watch_->start(); !started)
        log_error("option_watch", started.error());
    }
    if (client_address_.state == ClientAddress::kUnavailable) watch_client_address();
    ready_.store(true);
    LogEvent(LogLevel::kInfo, "main", "ready")
        .field("workers", std::uint64_t{workers_.size()})
        .field("version", FAIRLEAD_VERSION);
    wait_for_signal();
    // Parking uses part of the time that the sender of the signal gives us.
    const TimePoint deadline = event::EventLoop::now() + config_.drain.timeout;
    option_watch_.reset();
    draining_.store(true);
    if (!keeping_.park(workers_)) {
      for (const std::unique_ptr<relay::WorkerThread>& worker : workers_) worker->finish(deadline);
    }
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_) worker->join();
    client_address_watch_.reset();
    if (admin_) admin_->stop();
    LogEvent(LogLevel::kInfo, "main", "stopped");
  }

 private:
  void show_client_addresses() {
    client_address_ = choose_client_address(config_);
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_) {
      if (!client_address_.program) {
        worker->hide_client_addresses(client_address_.state);
        continue;
      }
      const Result<void> shown =
          worker->show_client_addresses(client_address_.program->map_descriptor());
      if (!shown) client_address_.fact = client_address_unavailable(to_string(shown.error()));
    }
    log_client_address(client_address_.fact);
    facts_.push_back(client_address_.fact);
  }

  // Watches for the map of programs that the node side has attached to the pod.
  void watch_client_address() {
    auto started =
        ClientAddressWatch::start([this](std::optional<int> map, const std::string& why) {
          return set_client_address(map, why);
        });
    if (started)
      client_address_watch_ = std::move(*started);
    else
      log_error("client_address", started.error());
  }

  // Runs on the watch's thread. False: not all workers know it yet.
  bool set_client_address(std::optional<int> map, const std::string& why) {
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
      if (!worker->set_client_address_map(map)) return false;
    replace_fact(map ? client_address_from_node() : client_address_unavailable(why));
    log_client_address(map ? client_address_from_node() : client_address_unavailable(why));
    return true;
  }

  static void log_client_address(const admin::Fact& fact) {
    LogEvent line(LogLevel::kInfo, "main", "client_address");
    line.field("what", fact.text);
    if (!fact.fix.empty()) line.field("hint", fact.fix);
  }

  void replace_fact(const admin::Fact& fact) {
    const std::lock_guard lock(facts_mutex_);
    for (admin::Fact& one : facts_)
      if (one.name == fact.name) one = fact;
  }

  Result<void> listen() {
    for (config::Listener& listener : config_.listeners) {
      std::vector<FileDescriptor> parked = keeping_.listeners_at(listener.listen);
      const std::size_t sockets = std::max(workers_.size(), parked.size());
      for (std::size_t i = 0; i < sockets; ++i) {
        relay::WorkerThread& worker = *workers_[i % workers_.size()];
        const bool takes_over = i < parked.size();
        Result<SocketAddress> address =
            takes_over ? worker.listen(listener, std::move(parked[i])) : worker.listen(listener);
        if (!address && takes_over) {
          LogEvent(LogLevel::kWarn, "main", "listener_not_taken_over")
              .field("listener", listener.name)
              .field("what", to_string(address.error()));
          address = worker.listen(listener);
        }
        if (!address) {
          LogEvent(LogLevel::kError, "main", "listen_failed")
              .field("listener", listener.name)
              .field("address", to_string(listener.listen))
              .field("what", to_string(address.error()));
          return address.error();
        }
        // The kernel chooses a port for port 0 once; the other workers share it.
        listener.listen = *address;
      }
      LogEvent(LogLevel::kInfo, "main", "listening")
          .field("listener", listener.name)
          .field("direction", to_string(listener.direction))
          .field("mode", config::to_string(listener.mode))
          .field("address", to_string(listener.listen));
    }
    return {};
  }

  Result<void> serve_admin() {
    if (!config_.admin.listen && config_.admin.socket.empty()) return {};
    admin_ = SMC_TRY(admin::AdminServer::create({}, admin_sources()));
    if (config_.admin.listen) SMC_TRY(listen_admin(event::HttpEndpoint(*config_.admin.listen)));
    if (!config_.admin.socket.empty()) {
      const event::HttpEndpoint socket = SMC_TRY(event::HttpEndpoint::parse(config_.admin.socket));
      SMC_TRY(listen_admin(socket));
    }
    return {};
  }

  Result<void> listen_admin(const event::HttpEndpoint& wanted) {
    const Result<event::HttpEndpoint> bound = admin_->listen(wanted);
    if (!bound) {
      LogEvent(LogLevel::kError, "main", "listen_failed")
          .field("listener", "admin")
          .field("address", to_string(wanted))
          .field("what", to_string(bound.error()))
          .field("hint", "two proxies in one network namespace need admin addresses of their own");
      return bound.error();
    }
    LogEvent(LogLevel::kInfo, "main", "admin").field("address", to_string(*bound));
    return {};
  }

  admin::AdminSources admin_sources() {
    admin::AdminSources sources;
    sources.build = {FAIRLEAD_VERSION, FAIRLEAD_REVISION, devices_.kinds()};
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
      sources.stats.push_back(&worker->stats());
    sources.snapshot = [this](const SnapshotRequest& request, const admin::SnapshotReply& reply) {
      for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
        worker->post([request, reply](relay::Worker& own) { reply(own.snapshot(request)); });
    };
    sources.redirect.user = ::geteuid();
    for (const config::Listener& listener : config_.listeners)
      if (listener.mode != config::ListenerMode::kStatic)
        sources.redirect.ports.push_back(listener.listen.port());
    sources.not_ready = [this]() -> std::vector<std::string> {
      if (ready_.load()) return {};
      return {"the workers have not started yet"};
    };
    sources.drain = [this] { drain(); };
    sources.draining = [this] { return draining_.load(); };
    sources.take_port = [this](const std::string& device, std::uint8_t port, bool up) {
      const auto state = up ? rdma::PortState::kActive : rdma::PortState::kDown;
      for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
        worker->post([device, port, state](relay::Worker& own) {
          (void)own.devices().set_port_state(device, PortNumber{port}, state);
        });
    };
    sources.direct = [this] { return direct_.report(); };
    sources.config_dump = [this] { return config::to_yaml(config_); };
    sources.facts = [this] {
      const std::lock_guard lock(facts_mutex_);
      return facts_;
    };
    return sources;
  }

  // Runs on the watch's thread. False: not all workers know it yet.
  bool set_external_option(bool attached) {
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_)
      if (!worker->set_external_option(attached)) return false;
    if (relay::Destinations* const known = direct_.destinations(); known != nullptr && attached)
      known->forget_all();
    const admin::Fact fact = external_fact(config_, attached);
    if (attached)
      LogEvent(LogLevel::kInfo, "main", "option_program").field("what", fact.text);
    else
      warn_no_option_program(fact);
    replace_fact(fact);
    return true;
  }

  static void warn_no_option_program(const admin::Fact& fact) {
    LogEvent(LogLevel::kWarn, "main", "no_option_program")
        .field("what", fact.text)
        .field("hint", fact.fix);
  }

  void wait_for_signal() {
    const int number = wait_for_stop_signal();
    LogEvent(LogLevel::kInfo, "main", "drain").field("signal", ::strsignal(number));
  }

  // Stops using SMC; connections continue until a signal ends the proxy.
  void drain() {
    draining_.store(true);
    for (const std::unique_ptr<relay::WorkerThread>& worker : workers_) worker->start_drain();
  }

  config::Config config_;
  std::mutex facts_mutex_;
  std::vector<admin::Fact> facts_;
  std::optional<bpf::OptionProgram> program_;
  ClientAddressSetup client_address_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  DeviceFactory devices_;
  DirectPaths direct_{config_};
  relay::FramesOffer frames_offer_;
  ConnectionKeeping keeping_{config_};
  std::vector<std::unique_ptr<relay::WorkerThread>> workers_;
  std::unique_ptr<admin::AdminServer> admin_;
  std::optional<bool> external_option_;  // state at start; empty: not watched
  std::optional<SynOptionWatch> option_watch_;
  std::unique_ptr<ClientAddressWatch> client_address_watch_;
};

}  // namespace

int run_proxy(int argc, char** argv, const DeviceTraits& traits) {
  Parsed parsed = parse_command_line(argc, argv, environ);
  if (!parsed.startup) return parsed.exit_code;
  raise_descriptor_limit();
  make_room_for_descriptors(parsed.startup->config.limits.connections * kDescriptorsPerConnection +
                            kDescriptorsBesides);
  log_start(parsed.startup->config.log.level, parsed.startup->config.log.format);
  const LogQueue log_queue;
  for (const std::string& warning : parsed.startup->warnings)
    LogEvent(LogLevel::kWarn, "main", "environment").field("what", warning);
  block_stop_signals();
  Proxy proxy(std::move(*parsed.startup), traits);
  if (const Result<void> built = proxy.build(); !built) {
    log_error("start_failed", built.error());
    return kExitFailure;
  }
  proxy.run();
  return 0;
}

}  // namespace fairlead
