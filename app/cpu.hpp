// This machine's CPU, and its instruction sets as the numeric libraries name them.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rekindle::app {

// As Linux names it; "" if it does not.
std::string cpu_name();

// The widest that ATen has kernels for: "avx512", "avx2" or "default".
std::string cpu_capability();
// Whether a CPU with `here` executes the kernels for `needed`; also if that is empty.
bool has_capability(const std::string& here, const std::string& needed);
// An error (ExitCode::kConfig) if the CPU of `host`, with `here`, does not execute what the run began with.
Status check_capability(const std::string& host, const std::string& here, const std::string& needed);

// The instruction set for bfloat16, as a value of ONEDNN_MAX_CPU_ISA (oneDNN's guide, "CPU Dispatcher
// Control"); "" if the CPU has no bfloat16 instructions. `flags`: of /proc/cpuinfo.
std::string bf16_isa_of(const std::string& flags);
std::string bf16_isa();  // of this machine

// Whether a CPU with the instruction set `here` executes what oneDNN chooses for `needed`.
bool has_bf16_isa(const std::string& here, const std::string& needed);

}  // namespace rekindle::app
