// What every command of fairleadctl works with: the streams, the options that all commands have,
// and the way to the proxy.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "ctl/http_client.h"
#include "ctl/json_value.h"

namespace fairlead::ctl {

enum class Exit : int { kOk = 0, kWarn = 1, kFail = 2 };

// Used when neither --admin nor the environment names an endpoint. The abstract socket needs no
// open port and no file; it is the one that works in a pod.
inline constexpr const char* kDefaultEndpoints[] = {"@fairlead-admin"};
inline constexpr const char* kEndpointVariable = "FAIRLEAD_ADMIN";

class Console {
 public:
  Console(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

  // Options; the parser writes them before a command runs.
  std::string admin;  // empty: the variable, then the default
  std::string output = "table";
  double timeout_seconds = 5;

  // What the program will return; set by the command that runs.
  Exit exit = Exit::kOk;

  std::ostream& out() { return out_; }
  std::ostream& err() { return err_; }
  bool wants_json() const { return output == "json"; }

  // The body of a reply of status 200 to 299. Otherwise nothing: the reason was printed to err(),
  // and `exit` is kFail.
  std::optional<std::string> get(const std::string& target) { return request("GET", target); }
  std::optional<std::string> post(const std::string& target) { return request("POST", target); }

  // The same without a word, for those to whom an unreachable proxy is no error. On failure
  // `reason` says why.
  std::optional<HttpReply> try_request(const char* method, const std::string& target,
                                       std::string& reason);

  // Prints the body as it came for -o json, else `render` of it.
  template <class Render>
  void show(const std::string& body, Render render) {
    if (wants_json())
      print(body);
    else
      print(render(parse_json(body)));
  }
  void print(const std::string& text);

  // Warns, also by the exit code, when workers did not answer, so that rows are missing.
  void note_silent_workers(const Json& reply);

 private:
  std::optional<std::string> request(const char* method, const std::string& target);
  std::vector<std::string> endpoint_names() const;

  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace fairlead::ctl
