#include "app/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "app/known_names.hpp"
#include "app/option_table.hpp"
#include "app/options.hpp"
#include "base/lists.hpp"
#include "base/text.hpp"
#include "slurm/script.hpp"

namespace rekindle::app {
namespace {

using Texts = std::vector<std::string>;

struct CompletedOption {
  Texts names;  // with their dashes
  std::string help;
  bool takes_value = false;
  Texts values;  // the ones that can be named; empty: any
};

struct CompletedCommand {
  std::string name, help;
  std::vector<CompletedOption> options;
};

// Its first part, in one line that no shell reads as anything else.
std::string short_help(std::string text) {
  constexpr std::size_t kLongest = 72;
  text = text.substr(0, text.find_first_of(";(\n"));
  if (text.size() > kLongest) text = text.substr(0, text.rfind(' ', kLongest));
  while (text.ends_with(' ') || text.ends_with(',') || text.ends_with(':')) text.pop_back();
  return text;
}

// "a", "b" of a type "TEXT:{a,b}", as CLI11 names a choice.
Texts choices_in(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.find('}');
  Texts values;
  if (begin == std::string::npos || end == std::string::npos) return values;
  for (std::size_t at = begin + 1; at < end;) {
    const std::size_t next = std::min(type.find(',', at), end);
    values.push_back(type.substr(at, next - at));
    at = next + 1;
  }
  return values;
}

Texts values_of(const CLI::Option& option) {
  if (option.check_lname("model")) {
    Texts models;
    for (const KnownModel& model : built_in_names().models) models.push_back(model.name);
    return models;
  }
  for (const OptionRow& row : option_table())
    if (option.check_lname(row.name)) return row.values != nullptr ? row.values() : Texts();
  return choices_in(option.get_type_name());
}

std::vector<CompletedCommand> completed_commands(const CLI::App& program) {
  std::vector<CompletedCommand> commands;
  for (const CLI::App* command : commands_of(program)) {
    CompletedCommand made{command->get_name(), short_help(command->get_description()), {}};
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() || option->get_group().empty()) continue;
      CompletedOption row{
          {}, short_help(option->get_description()), option->get_items_expected_max() != 0, {}};
      for (const std::string& name : option->get_lnames()) row.names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) row.names.push_back("-" + name);
      if (row.takes_value) row.values = values_of(*option);
      made.options.push_back(std::move(row));
    }
    commands.push_back(std::move(made));
  }
  return commands;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

Texts names_of(const CompletedCommand& command) {
  Texts names;
  for (const CompletedOption& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// The part of a command that finds the values of the option before the word.
std::string cases_of_values(const CompletedCommand& command, const std::string& before,
                            const std::string& open, const std::string& close) {
  std::string cases;
  for (const CompletedOption& option : command.options) {
    if (!option.values.empty())
      cases += str("        ", joined(option.names, "|"), ") values=", open, joined(option.values, " "),
                   close, " ;;\n");
  }
  return cases.empty() ? "" : str("      case ", before, " in\n", cases, "      esac\n");
}

std::string for_bash(const std::vector<CompletedCommand>& commands) {
  Texts names;
  std::string cases;
  for (const CompletedCommand& command : commands) {
    names.push_back(command.name);
    cases += str("    ", command.name, ")\n      options=\"", joined(names_of(command), " "), "\"\n",
                 cases_of_values(command, "$before", "\"", "\""), "      ;;\n");
  }
  return str(R"(_rekindle() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options="" values=""
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ")",
             joined(names, " "), R"( --help --version" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
)",
             cases, R"(  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  fi
}
complete -o default -F _rekindle rekindle
)");
}

std::string for_zsh(const std::vector<CompletedCommand>& commands) {
  // "name:help", of which the name must have no other colon.
  const auto row = [](const std::string& name, const std::string& help) {
    return "      " + slurm::quoted(str(replaced(name, ":", "\\:"), ":", help)) + "\n";
  };
  std::string names, cases;
  for (const CompletedCommand& command : commands) {
    names += row(command.name, command.help);
    cases += str("    ", command.name, ")\n      options=(\n");
    for (const CompletedOption& option : command.options)
      for (const std::string& name : option.names) cases += row(name, option.help);
    cases += str("      )\n", cases_of_values(command, "$words[CURRENT-1]", "(", ")"), "      ;;\n");
  }
  return str(R"(#compdef rekindle
_rekindle() {
  local -a commands options values
  if ((CURRENT == 2)); then
    commands=(
)",
             names, R"(    )
    _describe command commands
    return
  fi
  case $words[2] in
)",
             cases, R"(  esac
  if ((${#values})); then
    compadd -a values
  elif [[ $PREFIX == -* ]]; then
    _describe option options
  else
    _files
  fi
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then _rekindle "$@"; else compdef _rekindle rekindle; fi
)");
}

std::string for_fish(const std::vector<CompletedCommand>& commands) {
  const auto in_quotes = [](const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  std::string script;
  for (const CompletedCommand& command : commands) {
    script += str("complete -c rekindle -f -n __fish_use_subcommand -a ", command.name, " -d ",
                  in_quotes(command.help), "\n");
    for (const CompletedOption& option : command.options) {
      script += str("complete -c rekindle -n '__fish_seen_subcommand_from ", command.name, "'");
      for (const std::string& name : option.names)
        script += name.starts_with("--") ? str(" -l ", name.substr(2)) : str(" -s ", name.substr(1));
      if (!option.values.empty())
        script += str(" -x -a ", in_quotes(joined(option.values, " ")));
      else if (option.takes_value)
        script += " -r";
      script += str(" -d ", in_quotes(option.help), "\n");
    }
  }
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& program, Shell shell) {
  const std::vector<CompletedCommand> commands = completed_commands(program);
  switch (shell) {
    case Shell::kBash:
      return for_bash(commands);
    case Shell::kZsh:
      return for_zsh(commands);
    case Shell::kFish:
      return for_fish(commands);
  }
  return "";
}

}  // namespace rekindle::app
