// The manual page, and docs/commands.md, made from the same text as the help.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rekindle::app {

// rekindle(1), for man(1). `program`: with all its commands.
std::string manual_page(const CLI::App& program);
// docs/commands.md.
std::string commands_page(const CLI::App& program);

// What both say. A program's commands by group, each group where its first command is.
std::vector<std::vector<const CLI::App*>> groups_of(const CLI::App& program);
// The options of a command that its help shows, but for --help itself.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);
// What stands for an option's value; "" for a flag.
std::string value_of(const CLI::Option& option);
std::string example_of(const CLI::App& command);  // "": it has none

struct Term {
  const char *name, *text;
};
std::span<const Term> exit_codes();
std::span<const Term> environment_variables();

// `rekindle manual` prints the first one, and `rekindle manual markdown` the second. Not among the commands,
// because it is for the installation and for the documents.
inline constexpr const char *kManual = "manual", *kMarkdown = "markdown";

}  // namespace rekindle::app
