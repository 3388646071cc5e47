// Alternative spellings of options and values that users of PyTorch and torchrun are used to.
#pragma once

#include <string>
#include <vector>

namespace rekindle::app {

// The usual name of an option without leading dashes: "batch-size" for "batch_size", "lr" for
// "learning-rate".
std::string usual_name(std::string name);

// What to do in place of an option of another launcher, without leading dashes; "" for any other name.
std::string other_launchers_option(const std::string& name);

// Replaces each option name of a command line, up to "--"; values stay as they are.
void use_usual_names(std::vector<std::string>& arguments);

}  // namespace rekindle::app
