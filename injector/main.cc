// fairlead-injector: the webhook that adds the sidecar to pods. It serves until a signal. Exit
// codes: 0 after a signal, 1 if the start failed, 64 for a wrong command line or wrong settings.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/command_words.h"
#include "base/kubernetes_names.h"
#include "base/linux/descriptors.h"
#include "base/linux/files.h"
#include "base/linux/stop_signals.h"
#include "base/log.h"
#include "event/https/tls_identity.h"
#include "injector/webhook.h"

namespace fairlead::injector {
namespace {

constexpr int kExitUsage = 64;
constexpr int kExitFailure = 1;
constexpr std::size_t kSettingsBytesMax = 1 << 20;

struct Options {
  std::string settings_file;
  std::string listen = "[::]:9443";
  std::string admin = "[::]:4590";
  std::string certificate_folder;  // empty: self-managed certificates
  OwnNames own;
  std::string log_level = "info";
  std::string log_format = "logfmt";
};

int usage(const std::string& what) {
  std::fprintf(stderr, "fairlead-injector: %s\n", shown_message(what).c_str());
  return kExitUsage;
}

std::optional<int> parse(int argc, char** argv, Options& options) {
  if (const std::string why = refused_word(argc, argv); !why.empty()) return usage(why);
  CLI::App app{"Gives pods the Fairlead sidecar: a mutating admission webhook."};
  app.name("fairlead-injector");
  app.add_option("--settings", options.settings_file, "JSON file; see docs/injection.md")
      ->required();
  app.add_option("--listen", options.listen, "address:port for reviews, over TLS");
  app.add_option("--admin", options.admin, "address:port for /metrics, /livez and /readyz");
  app.add_option("--cert-dir", options.certificate_folder,
                 "folder with tls.crt and tls.key, read again when they change; without it the "
                 "injector makes and renews its certificates itself, in the Secret below");
  app.add_option("--namespace", options.own.name_space, "namespace of Secret and Service")
      ->check(optional_name_trouble);
  app.add_option("--secret", options.own.secret, "Secret that holds the certificates")
      ->check(optional_name_trouble);
  app.add_option("--service", options.own.service, "Service that the certificate is for")
      ->check(optional_name_trouble);
  app.add_option("--webhook", options.own.configuration,
                 "MutatingWebhookConfiguration whose caBundle is kept")
      ->check(optional_name_trouble);
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  app.add_option("--log-format", options.log_format, "logfmt or json")
      ->check(CLI::IsMember({"logfmt", "json"}));
  app.set_version_flag("--version", FAIRLEAD_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() != 0 ? usage(error.what()) : app.exit(error);
  }
  if (options.certificate_folder.empty())
    for (const std::string* name : {&options.own.name_space, &options.own.secret,
                                    &options.own.service, &options.own.configuration})
      if (!kubernetes::is_object_name(*name))
        return usage("\"" + *name +
                     "\" is not allowed; allowed: without --cert-dir names for --namespace, "
                     "--secret, --service and --webhook");
  return std::nullopt;
}

class Injector {
 public:
  Injector(Options options, Settings settings)
      : options_(std::move(options)),
        webhook_(std::move(settings), metrics_,
                 [this](EventOrder order) { chores_->order_event(std::move(order)); }),
        pages_(metrics_, is_ready_) {}

  Result<void> serve() {
    reviews_ = SMC_TRY(event::HttpServer::create(
        Webhook::limits(),
        [this](event::HttpExchange exchange) { webhook_.handle(std::move(exchange)); },
        identity_.stream_maker(), &metrics_.review_refusals()));
    admin_ = SMC_TRY(event::HttpServer::create(
        {}, [this](event::HttpExchange exchange) { pages_.handle(std::move(exchange)); }, {},
        &metrics_.admin_refusals()));
    const event::HttpEndpoint where = SMC_TRY(event::HttpEndpoint::parse(options_.admin));
    announce("admin", SMC_TRY(admin_->listen(where)));
    review_endpoint_ = SMC_TRY(event::HttpEndpoint::parse(options_.listen));
    std::optional<Cluster> cluster;
    auto from_pod = event::ApiServer::from_pod();
    if (from_pod) cluster.emplace(std::move(*from_pod));
    const bool makes_own = options_.certificate_folder.empty();
    if (makes_own && !cluster) {
      LogEvent(LogLevel::kError, "injector", "no_cluster")
          .field("what", from_pod.error())
          .field("hint", "with --cert-dir none is needed");
      return Error{Errc::kNotFound, "API server", 0};
    }
    Duration interval = std::chrono::seconds(5);  // two small files
    Chores::Refresh refresh = [folder = options_.certificate_folder](unsigned&) {
      return read_certificate_files(folder);
    };
    if (makes_own) {
      interval = std::chrono::seconds(30);
      refresh = [own = OwnCertificates(*cluster, options_.own)](unsigned& renewed) mutable {
        return own.refresh(std::chrono::system_clock::now(), renewed);
      };
    }
    chores_.emplace(metrics_, std::move(cluster), interval, std::move(refresh),
                    [this](const KeyPair& pair) { return take(pair); });
    SMC_TRY(chores_->start());
    return admin_->start("admin");
  }

  void stop() {
    chores_->stop();
    reviews_->stop();
    admin_->stop();
  }

 private:
  static void announce(const char* what, const event::HttpEndpoint& endpoint) {
    LogEvent(LogLevel::kInfo, "injector", "listening")
        .field("what", what)
        .field("address", to_string(endpoint));
  }

  // Runs on the thread of the chores. The first certificate starts the service. A later one is
  // passed to the serving thread, which owns the identity from then on.
  Result<void> take(const KeyPair& pair) {
    if (is_ready_.load()) {
      // Checked here, so that a bad pair is reported and the one in use stays.
      event::TlsIdentity trial;
      SMC_TRY(trial.load(pair.certificate_pem, pair.key_pem));
      const bool is_posted = reviews_->post(
          [this, pair] { (void)identity_.load(pair.certificate_pem, pair.key_pem); });
      return is_posted ? Result<void>() : Error{Errc::kExhausted, "tasks of the server", 0};
    }
    SMC_TRY(identity_.load(pair.certificate_pem, pair.key_pem));
    announce("reviews", SMC_TRY(reviews_->listen(review_endpoint_)));
    SMC_TRY(reviews_->start("reviews"));
    is_ready_.store(true);
    LogEvent(LogLevel::kInfo, "injector", "ready").field("version", FAIRLEAD_VERSION);
    return {};
  }

  Options options_;
  InjectorMetrics metrics_;
  std::atomic<bool> is_ready_{false};
  Webhook webhook_;
  AdminPages pages_;
  event::HttpEndpoint review_endpoint_{SocketAddress()};
  event::TlsIdentity identity_;
  std::unique_ptr<event::HttpServer> reviews_;
  std::unique_ptr<event::HttpServer> admin_;
  std::optional<Chores> chores_;
};

int run(int argc, char** argv) {
  Options options;
  if (const auto code = parse(argc, argv, options)) return *code;
  const auto text = read_file(options.settings_file, kSettingsBytesMax);
  if (!text) return usage(options.settings_file + ": cannot be read");
  auto settings = parse_settings(*text);
  if (!settings) return usage(options.settings_file + ": " + settings.error());
  log_start(*log_level_from(options.log_level),
            options.log_format == "json" ? LogFormat::kJson : LogFormat::kLogfmt);
  const LogQueue log_queue;
  raise_descriptor_limit();
  // Three threads that rarely allocate at once need no arena each.
  mallopt(M_ARENA_MAX, 1);
  block_stop_signals();
  Injector injector(std::move(options), std::move(*settings));
  if (const Result<void> served = injector.serve(); !served) {
    LogEvent(LogLevel::kError, "injector", "start_failed").field("what", to_string(served.error()));
    return kExitFailure;
  }
  (void)wait_for_stop_signal();
  injector.stop();
  LogEvent(LogLevel::kInfo, "injector", "stopped");
  return 0;
}

}  // namespace
}  // namespace fairlead::injector

int main(int argc, char** argv) { return fairlead::injector::run(argc, argv); }
