// The manual page, and docs/commands.md, made from the same text as the help.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
}

namespace rekindle::app {

// rekindle(1), for man(1). `program`: with all its commands.
std::string manual_page(const CLI::App& program);
// docs/commands.md.
std::string commands_page(const CLI::App& program);

struct Term {
  const char *name, *text;
};
std::span<const Term> exit_codes();
std::span<const Term> environment_variables();

// `rekindle manual` prints the first one, and `rekindle manual markdown` the second. Not among the commands,
// because it is for the installation and for the documents.
inline constexpr const char *kManual = "manual", *kMarkdown = "markdown";

}  // namespace rekindle::app
