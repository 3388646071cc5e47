// Other spellings of options and values, which users of PyTorch and torchrun type by habit.
#pragma once

#include <string>
#include <vector>

namespace rekindle::app {

// The name of an option, without dashes in front: "batch_size" is "batch-size", "learning-rate" is "lr".
std::string usual_name(std::string name);

// The same for each option of a command line, up to "--"; values stay as they are.
void use_usual_names(std::vector<std::string>& arguments);

}  // namespace rekindle::app
