#include "app/manual.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string_view>

#include "app/options.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

// Text for troff: no character that it would read as one of its own.
std::string plain(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '\\')
      made += "\\e";
    else if (c == '-')
      made += "\\-";
    else if (c == '\n')
      made += ' ';
    else
      made += c;
  }
  if (made.starts_with('.') || made.starts_with('\'')) made.insert(0, "\\&");
  return made;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// "--keep N", "-f, --follow"
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames())
    names += str(names.empty() ? "" : ", ", "\\fB\\-", name, "\\fR");
  for (const std::string& name : option.get_lnames())
    names += str(names.empty() ? "" : ", ", "\\fB\\-\\-", plain(name), "\\fR");
  const std::string value = value_of(option);
  return value.empty() ? names : str(names, " \\fI", plain(value), "\\fR");
}

std::string item(const std::string& head, const std::string& text) {
  return str(".TP\n", head, "\n", text.empty() ? "\\&" : plain(text), "\n");
}

std::string list_of_commands(const CLI::App& program) {
  std::string text = ".SH COMMANDS\n";
  for (const auto& group : groups_of(program)) {
    text += str(".SS ", group.front()->get_group(), "\n");
    for (const CLI::App* command : group)
      text += item(str("\\fB", plain(command->get_name()), "\\fR"), command->get_description());
  }
  return text;
}

// `told`: what an earlier command has said of its options.
std::string section_of(const CLI::App& command, std::set<std::string>& told) {
  std::string text =
      str(".SH REKINDLE ", upper(plain(command.get_name())), "\n.B rekindle ", plain(command.get_name()));
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) text += str("\n.I ", plain(option->get_name(true)));
  text += "\n.RI [ OPTIONS ]\n.PP\n" + plain(command.get_description()) + ".\n";
  bool same = false;
  std::string options;
  for (const CLI::Option* option : shown_options(command)) {
    const std::string one = item(names_of(*option), option->get_description());
    // local, slurm and submit have a hundred options in common.
    const bool shared = command.get_options().size() > 40 && !told.insert(one).second;
    same = same || shared;
    if (!shared) options += one;
  }
  if (same) text += ".PP\nThe options of rekindle local" + std::string(options.empty() ? ".\n" : ", and:\n");
  text += options;
  if (const std::string example = example_of(command); !example.empty())
    text += ".PP\nExample:\n.PP\n.nf\n.RS\n" + plain(example) + "\n.RE\n.fi\n";
  return text;
}

}  // namespace

std::vector<std::vector<const CLI::App*>> groups_of(const CLI::App& program) {
  std::vector<std::vector<const CLI::App*>> groups;
  for (const CLI::App* command : commands_of(program)) {
    const auto its = std::ranges::find_if(
        groups, [&](const auto& group) { return group.front()->get_group() == command->get_group(); });
    if (its == groups.end())
      groups.push_back({command});
    else
      its->push_back(command);
  }
  return groups;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  std::vector<const CLI::Option*> shown = command.get_options();
  std::erase_if(shown, [](const CLI::Option* option) {
    return option->get_positional() || option->get_group().empty() || option->check_lname("help") ||
           option->check_lname("help-all");
  });
  return shown;
}

std::string value_of(const CLI::Option& option) {
  const std::string value = option.get_items_expected_max() != 0 ? option.get_type_name() : "";
  return value.substr(0, value.find_first_of(":="));
}

std::string example_of(const CLI::App& command) {
  const std::string footer = command.get_footer();
  const std::size_t at = footer.find('\n');
  return at == std::string::npos ? "" : footer.substr(footer.find_first_not_of(' ', at + 1));
}

std::span<const Term> exit_codes() {
  static constexpr Term kRows[] = {{"0", "finished, or done"},
                                   {"64", "wrong command line"},
                                   {"70", "gave up: it would fail again"},
                                   {"75", "state saved: start it again"},
                                   {"78", "wrong configuration or data"},
                                   {"130", "saved after Ctrl-C"}};
  return kRows;
}

std::span<const Term> environment_variables() {
  static constexpr Term kRows[] = {
      {"REKINDLE_PYTHON", "the interpreter of a script, if --python does not name one"},
      {"REKINDLE_PACKAGE",
       "the package of a script in folders that are none by themselves, as python -m has it"},
      {"REKINDLE_CONTAINER",
       "the image of a run that evaluate and audit may use although it is another user's"},
      {"REKINDLE_TORCH", "the folder of LibTorch that a program of one's own is built with"},
      {"REKINDLE_CUDA_GRAPHS", "0: on a GPU, start each operator of a micro-batch, in place of a recording"},
      {"NO_COLOR", "not empty: no colours on a terminal"}};
  return kRows;
}

std::string manual_page(const CLI::App& program) {
  std::string page =
      ".TH REKINDLE 1 \"\" rekindle \"User Commands\"\n.SH NAME\nrekindle \\- train models with data "
      "parallelism, and go on after any fault with the same bits\n.SH SYNOPSIS\n.B rekindle\n.I COMMAND\n"
      ".RI [ OPTIONS ]\n.SH DESCRIPTION\n" +
      plain(program.get_description()) + "\nEvery command has\n.B \\-\\-help\nand\n.BR \\-\\-help\\-all .\n";
  page += list_of_commands(program);
  std::set<std::string> told;
  for (const CLI::App* command : commands_of(program)) page += section_of(*command, told);
  page += ".SH EXIT STATUS\n";
  for (const Term& row : exit_codes()) page += item(row.name, row.text);
  page += ".SH ENVIRONMENT\n";
  for (const Term& row : environment_variables()) page += item(str("\\fB", row.name, "\\fR"), row.text);
  return page;
}

}  // namespace rekindle::app
