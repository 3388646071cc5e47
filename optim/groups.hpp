// Parameter groups: which parameters have another learning rate, or no weight decay (--lr-scale, --no-decay).
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::optim {

// How one parameter differs from the options of the run.
struct Group {
  double lr_scale = 1;  // of the learning rate
  bool decays = true;   // false: its weight decay is 0
};

// `no_decay`: patterns, as in "*.bias,norm.*". `lr_scale`: patterns with a factor each, as in "fc.*=0.1". A
// pattern is that of a shell: * stands for any characters, dots included. Empty: none.
struct GroupOptions {
  std::string no_decay = {}, lr_scale = {};
};

// The group of each parameter in `names`. Errors (ExitCode::kConfig): a pattern that matches no parameter, a
// parameter that two patterns of one option match, a factor that is not a number of at least 0.
Result<std::vector<Group>> make_groups(const GroupOptions& options, const std::vector<std::string>& names);

}  // namespace rekindle::optim
