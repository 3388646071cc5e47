// What a coordinator has to know before it begins, from the run directory.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "protocol/coordinator.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::actors {

// A checkpoint of another run is an error (ExitCode::kConfig). `recorded`: what metrics.jsonl has, if wanted.
// `give_up` is asked while that file is read.
Result<protocol::CoordinatorConfig> survey(const run::Layout& layout, const protocol::Job& job,
                                           std::uint64_t term, run::Recorded* recorded = nullptr,
                                           const std::function<bool()>& give_up = {});

}  // namespace rekindle::actors
