// What the user reads about the GPUs of a new generation.
#pragma once

#include <string>
#include <vector>

#include "protocol/trainer_messages.hpp"

namespace rekindle::protocol {

// Which trainers share a GPU, and which way gradients go between GPUs. Each trainer decides this itself from
// the same members (exchange/device_hub.cpp). Empty without GPUs.
std::vector<std::string> gpu_lines(const std::vector<const TrainerReady*>& members,
                                   const std::string& exchange);

// Whether the gradients of these members go by NCCL.
bool nccl_serves(const std::vector<const TrainerReady*>& members, const std::string& exchange);

}  // namespace rekindle::protocol
