// Completion of the command line in a shell, made from the same options as the help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rekindle::app {

enum class Shell { kBash, kZsh, kFish };

// What the shell has to read, as in `source <(rekindle completion bash)`. `program`: with all its commands.
std::string completion_script(const CLI::App& program, Shell shell);

}  // namespace rekindle::app
