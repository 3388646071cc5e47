// What the user reads about the GPUs of a new generation.
#pragma once

#include <string>
#include <vector>

#include "protocol/trainer_messages.hpp"

namespace rekindle::protocol {

// NCCL's way has a kernel that adds so many partial sums (device::kMostOperands).
inline constexpr int kMostPartialSums = 256;
// How many partial sums the ranks of a generation contribute together (exchange::make_layout).
int partial_sums(int micro_batches, int ranks);

// Which trainers share a GPU, and which way gradients go between GPUs. Each trainer decides this itself from
// the same members (exchange/device_hub.cpp). Empty without GPUs.
std::vector<std::string> gpu_lines(const std::vector<const TrainerReady*>& members,
                                   const std::string& exchange, int micro_batches);

// How many GPUs of the trainers' machines the run does not use, and what would use them; "" if there is none.
std::string idle_gpus(const std::vector<const TrainerReady*>& trainers);

// Whether the gradients of these members go by NCCL.
bool nccl_serves(const std::vector<const TrainerReady*>& members, const std::string& exchange,
                 int micro_batches);

}  // namespace rekindle::protocol
