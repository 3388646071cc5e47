#include <CLI/CLI.hpp>
#include <set>

#include "app/manual.hpp"
#include "app/option_table.hpp"
#include "app/options.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

// "--follow, -f", "--keep N"
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) names += str(names.empty() ? "" : ", ", "--", name);
  for (const std::string& name : option.get_snames()) names += str(names.empty() ? "" : ", ", "-", name);
  const std::string value = value_of(option);
  return value.empty() ? names : str(names, " ", value);
}

// With the default value, unless the description has it.
std::string description_of(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::string value = option.get_default_str();
  if (value.empty() || text.find("default: ") != std::string::npos) return text;
  return str(text, text.empty() ? "" : " ", "(default: ", value, ")");
}

// Those of a run have a page of their own.
bool has_options_of_a_run(const CLI::App& command) {
  return command.get_options().size() > option_table().size();
}

std::string section_of(const CLI::App& command) {
  std::string use = str("rekindle ", command.get_name());
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      use +=
          option->get_required() ? str(" ", option->get_name(true)) : str(" [", option->get_name(true), "]");
  std::string text = str("\n## rekindle ", command.get_name(), "\n\n    ", use, " [OPTIONS]\n\n",
                         command.get_description(), ".");
  const bool of_a_run = has_options_of_a_run(command);
  if (of_a_run) text += "\n\nIts options are those of [a run](options.md)";
  std::set<std::string> known;
  if (of_a_run)
    for (const OptionRow& row : option_table()) known.insert(row.name);
  std::string rows;
  for (const CLI::Option* option : shown_options(command)) {
    if (!option->get_lnames().empty() && known.contains(option->get_lnames().front())) continue;
    rows +=
        str("| `", markdown_cell(names_of(*option)), "` | ", markdown_cell(description_of(*option)), " |\n");
  }
  if (of_a_run) text += rows.empty() ? "." : ", and:";
  text += "\n";
  if (!rows.empty()) text += "\n| option | what it does |\n|---|---|\n" + rows;
  if (const std::string example = example_of(command); !example.empty())
    text += str("\nExample:\n\n    ", example, "\n");
  return text;
}

std::string table_of(std::span<const Term> terms, const char* head) {
  std::string text = str("\n| ", head, " | |\n|---|---|\n");
  for (const Term& term : terms) text += str("| `", term.name, "` | ", markdown_cell(term.text), " |\n");
  return text;
}

}  // namespace

std::string commands_page(const CLI::App& program) {
  std::string page =
      "# Every command\n\nMade from the program's own text (`rekindle manual markdown`), as `--help` and "
      "rekindle(1) are. Every\ncommand has `--help` and `--help-all`.\n";
  for (const auto& group : groups_of(program)) {
    page += str("\n| ", group.front()->get_group(), " | |\n|---|---|\n");
    for (const CLI::App* command : group)
      page += str("| [", command->get_name(), "](#rekindle-", command->get_name(), ") | ",
                  markdown_cell(command->get_description()), " |\n");
  }
  page += "\n## Exit codes\n" + table_of(exit_codes(), "code");
  page += "\n## Environment variables\n" + table_of(environment_variables(), "variable");
  for (const CLI::App* command : commands_of(program)) page += section_of(*command);
  return page;
}

}  // namespace rekindle::app
