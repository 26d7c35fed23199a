// What every command of fairleadctl works with: the streams, the options that all commands have,
// and the way to the proxy.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
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

  bool wants_json() const { return output == "json"; }

  struct Answer {
    std::string body;  // JSON
    Json json;         // the same, read
  };

  // The answer of status 200 to 299. Otherwise nothing: complain() has told the reason, and `exit`
  // is kFail. What is not JSON within kReplyLimits is no answer.
  std::optional<Answer> get(const std::string& target) { return request("GET", target); }
  std::optional<Answer> post(const std::string& target) { return request("POST", target); }

  // The same without a word, for those to whom an unreachable proxy is no error. On failure
  // `reason` says why.
  std::optional<event::HttpReply> try_request(const char* method, const std::string& target,
                                              std::string& reason);

  // Prints the body for -o json, else `render` of it.
  template <class Render>
  void show(const Answer& answer, Render render) {
    if (wants_json())
      print_json(answer.body);
    else
      print(render(answer.json));
  }

  // The ways to the two streams. Texts come from strangers, so print() is printable_lines() of a
  // text, and print_json() is escaped_json(). print_exactly() is for texts of this program, and for
  // files of its user.
  void print(std::string_view text);
  void print_json(std::string_view json);
  void print_exactly(std::string_view text);
  // A line to standard error, printable(). complain() begins it with the name of the program.
  void note(std::string_view text);
  // It may contain words of the command line, so it is cut.
  void complain(const std::string& text);
  void flush();

  // Warns, also by the exit code, when workers did not answer, so that rows are missing.
  void note_silent_workers(const Json& reply);

 private:
  std::optional<Answer> request(const char* method, const std::string& target);
  std::vector<std::string> endpoint_names() const;

  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace fairlead::ctl
