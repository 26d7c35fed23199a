// fairlead-cni, a chained CNI plugin: reads one call from the environment and standard input,
// executes it, and answers on standard output. Exit codes: 0, or 1 with an error object of the CNI
// specification 1.1.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cni/plugin/reference.h"
#include "cni/plugin/request.h"
#include "cni/rnics/verbs.h"

extern char** environ;

namespace fairlead::cni {
namespace {

StringMap cni_environment() {
  StringMap found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with("CNI_") && equals != std::string_view::npos)
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

// A runtime has the configuration ready before it calls.
constexpr std::chrono::seconds kInputWaitMax{30};

Outcome<std::string> read_input() {
  std::string input;
  char chunk[16384];
  const auto deadline = std::chrono::steady_clock::now() + kInputWaitMax;
  while (input.size() <= kJsonBytesMax) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      return fail(Code::kInput, "standard input: no end within " +
                                    std::to_string(kInputWaitMax.count()) + " seconds");
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return fail(Code::kInput,
                  "standard input: " + to_string(fairlead::system_error("read", errno)));
    input.append(chunk, static_cast<std::size_t>(count));
  }
  return input;
}

bool print(std::string text) {
  if (text.empty()) return true;
  text += "\n";
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

int report(const PluginError& error, const std::string& version) {
  Json json = {
      {"cniVersion", version}, {"code", static_cast<unsigned>(error.code)}, {"msg", error.message}};
  if (!error.details.empty()) json["details"] = error.details;
  (void)print(to_text(json));
  return 1;
}

int run() {
  const StringMap environment = cni_environment();
  auto input = read_input();
  if (!input) return report(input.error(), std::string(supported_versions().back()));
  const auto request = parse_request(environment, *input);
  if (!request) return report(request.error(), std::string(supported_versions().back()));
  const auto answer = run_verb(*request);
  if (!answer) return report(answer.error(), request->cni_version);
  return print(*answer) ? 0 : 1;
}

}  // namespace
}  // namespace fairlead::cni

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  if (argc == 2 && std::string_view(argv[1]) == "docs") {
    std::fputs(fairlead::cni::reference_page().c_str(), stdout);
    return 0;
  }
  if (argc > 1) {
    std::fputs("fairlead-cni " FAIRLEAD_VERSION
               " is called by a container runtime, with CNI_COMMAND in its environment and a "
               "network configuration on standard input; \"fairlead-cni docs\" prints its "
               "reference.\n",
               stderr);
    return 64;
  }
  return fairlead::cni::run();
}
