#include "cni/node/broker/broker_command.h"

#include <sys/stat.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/linux/stop_signals.h"
#include "cni/node/broker/broker.h"

namespace fairlead::cni::node {
namespace {

constexpr mode_t kRunDirMode = 0700;

}  // namespace

Outcome<void> run_broker(const BrokerCommand& command) {
  if (::mkdir(command.run_dir.c_str(), kRunDirMode) != 0 && errno != EEXIST)
    return fail(Code::kState, to_string(system_error(command.run_dir.c_str(), errno)));
  PodWatch pods = SMC_TRY(PodWatch::of_namespaces(command.netns_dir));
  const auto broker = SMC_TRY(Broker::create({.run_dir = command.run_dir,
                                              .sidecar_uid = command.sidecar_uid,
                                              .socket_name = command.socket_name},
                                             std::move(pods)));
  std::thread thread([&broker] { broker->run(); });
  (void)wait_for_stop_signal();
  broker->stop();
  thread.join();
  return {};
}

}  // namespace fairlead::cni::node
