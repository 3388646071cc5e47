// The only form of Python pickle that a state dict needs. Internal to checkpoint/.
#pragma once

#include <string>

#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// An OrderedDict of tensor i's name to _rebuild_tensor_v2 over storage "i", as torch.save pickles it
// (torch/serialization.py). torch.load(weights_only=True) accepts it.
std::string state_dict_pickle(const StateSpec& spec);

}  // namespace rekindle::checkpoint
