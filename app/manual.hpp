// The manual page, made from the same text as the help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rekindle::app {

// rekindle(1), for man(1). `program`: with all its commands.
std::string manual_page(const CLI::App& program);

// `rekindle manual` prints it. Not among the commands, because it is for the installation.
inline constexpr const char* kManual = "manual";

}  // namespace rekindle::app
