// The numeric handshake's computation: whether this machine computes the same gradient twice, and a hash by
// which it is compared with other machines. A fingerprint lists reasons for other bits; only computing and
// comparing finds the reasons that nobody listed.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "model/model.hpp"

namespace rekindle::model {

struct NumericCheck {
  std::string hash;      // of the gradient's tensors and the loss
  std::string mismatch;  // the first tensor in which two computations differ, or "the loss"; empty: none
};

// Computes one micro-batch twice. `replica` is one of `config`, and its state stays as it is; `gradient` has
// arena_floats() floats, all of which are overwritten. Errors: those of Replica::train_leaf().
Result<NumericCheck> check_numerics(Replica& replica, const ModelConfig& config,
                                    std::span<const float> images, std::span<const std::int64_t> labels,
                                    std::uint64_t dropout_key, std::span<float> gradient,
                                    const std::atomic<bool>& aborted);

// What a person needs to know of a machine that computes other bits: its processor and its libraries'
// versions.
std::string describe_machine(const ModelConfig& config);

}  // namespace rekindle::model
