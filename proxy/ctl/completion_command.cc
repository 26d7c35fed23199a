// completion: a script for the shell, made from the parser's own list of commands and options.
#include <string>

#include "ctl/commands.h"

namespace fairlead::ctl {
namespace {

std::string option_words(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      words += (words.empty() ? "--" : " --") + name;
  }
  return words;
}

std::string bash_script(const CLI::App& root) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    const std::string name = command->get_name();
    commands += (commands.empty() ? "" : " ") + name;
    std::string words = option_words(*command);
    if (name == "log-level") words += " trace debug info warn error off";
    if (name == "completion") words += " bash";
    cases += "    " + name + ") words=\"" + words + "\" ;;\n";
  }
  return "# bash completion for fairleadctl: source <(fairleadctl completion bash)\n"
         "_fairleadctl() {\n"
         "  local word words=\"" +
         commands + "\" globals=\"" + option_words(root) +
         "\"\n"
         "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n"
         "    -o|--output) COMPREPLY=($(compgen -W \"table json\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "      return ;;\n"
         "  esac\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case \"$word\" in\n" +
         cases +
         "  esac; done\n"
         "  COMPREPLY=($(compgen -W \"$words $globals\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -F _fairleadctl fairleadctl\n";
}

}  // namespace

void add_completion_command(CLI::App& app, Console& console) {
  CLI::App* completion = app.add_subcommand("completion", "Prints a completion script for a shell");
  completion->add_option("SHELL", "bash")->required()->check(CLI::IsMember({"bash"}));
  completion->footer("Examples:\n  source <(fairleadctl completion bash)");
  completion->callback([&console, &app] { console.print_exactly(bash_script(app)); });
}

}  // namespace fairlead::ctl
