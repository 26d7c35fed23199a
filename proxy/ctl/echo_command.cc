// echo: whether two pods reach each other.
#include <chrono>
#include <string>

#include "ctl/commands.h"
#include "ctl/echo.h"

namespace fairlead::ctl {
namespace {

constexpr double kWaitSecondsMax = 3600;
constexpr double kWaitSeconds = 60;
constexpr int kEchoPort = 7007;
constexpr std::size_t kEchoBytes = 1 << 20;

constexpr int kServingIndex = 0;

void report(Console& console, const char* what, const Result<EchoResult>& result) {
  if (!result) {
    console.complain(to_string(result.error()));
    console.exit = Exit::kFail;
    return;
  }
  if (console.wants_json())
    console.print_json(Json{{"peer", result->peer}, {"bytes", result->bytes}}.dump() + "\n");
  else
    console.print(std::string(what) + " " + std::to_string(result->bytes) + " bytes, peer " +
                  result->peer + "\n");
}

Result<EchoResult> serve(std::uint16_t port, TimePoint deadline) {
  EchoServer server = SMC_TRY(EchoServer::listen(port));
  return server.serve_one(deadline);
}

void run_echo(Console& console, const CLI::App& command) {
  const auto wait = std::chrono::duration<double>(command["--wait"]->as<double>());
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<Duration>(wait);
  const auto port = command["--port"]->as<std::uint16_t>();
  const bool is_server =
      command.count("HOST") == 0 ||
      (command.count("--index") > 0 && command["--index"]->as<int>() == kServingIndex);
  if (is_server)
    report(console, "returned", serve(port, deadline));
  else
    report(console, "sent and got back",
           echo_exchange(command["HOST"]->as<std::string>(), port,
                         command["--bytes"]->as<std::size_t>(), deadline));
}

}  // namespace

void add_echo_command(CLI::App& app, Console& console) {
  CLI::App* echo =
      app.add_subcommand("echo", "Exchanges bytes with another pod that runs this too");
  echo->add_option("HOST",
                   "Name or address of the other pod; without it, waits for one connection");
  echo->add_option("-p,--port", "TCP port of the pod that waits")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535))
      ->default_val(kEchoPort);
  echo->add_option("--bytes", "Bytes to send")
      ->type_name("COUNT")
      ->check(CLI::Range(std::size_t{1}, kEchoBytesMax))
      ->default_val(kEchoBytes);
  echo->add_option("--wait", "Seconds until the exchange must be complete")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, kWaitSecondsMax))
      ->default_val(kWaitSeconds);
  echo->add_option("--index", "Of this pod in an indexed Job: 0 waits, any other connects")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 1'000'000));
  echo->footer(
      "Needs no proxy. Where the pods have one, fairleadctl why tells what carried the bytes.\n"
      "Examples:\n"
      "  fairleadctl echo\n"
      "  fairleadctl echo 10.1.2.7 --bytes 1000000\n"
      "  fairleadctl echo \"$SERVICE_HOST\" --index \"$JOB_COMPLETION_INDEX\"");
  echo->callback([&console, echo] { run_echo(console, *echo); });
}

}  // namespace fairlead::ctl
