// The options of the machines that compute: devices, threads, trainers and their exchange.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "app/container.hpp"
#include "app/resolver.hpp"
#include "base/files.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {
namespace {

constexpr std::uint64_t kMostTrainers = 1024;

}  // namespace

// A container or a job may see any of them, not the first one.
bool has_gpu() {
  const auto devices = names_in(std::filesystem::path("/dev"));
  return devices && std::ranges::any_of(*devices, [](const std::string& name) {
           constexpr std::string_view kGpu = "nvidia";
           return name.starts_with(kGpu) && name.find_first_of("0123456789") == kGpu.size();
         });
}

DeviceChoice choose_device(const std::string& wanted, bool built, const GpuState& gpu) {
  if (wanted != "auto") return {wanted};
  if (!built) return {"cpu"};
  if (!gpu.why_not.empty()) return {"cpu", str("on cpu: ", gpu.why_not)};
  return {gpu.there ? "cuda" : "cpu"};
}

Status Resolver::device() {
  const std::string wanted = raw_.device == "gpu" ? "cuda" : raw_.device;
  // twin: the code of a GPU on memory of the host, for development (docs/development.md).
  if (wanted != "twin") REKINDLE_CHECK(one_of("device", wanted, {"auto", "cpu", "cuda"}));
  const bool built = script_ == nullptr ? kCudaModels : kCudaScripts;
  const GpuState gpu = script_ == nullptr ? GpuState() : GpuState{script_->has_gpu, script_->no_gpu};
  const DeviceChoice choice = choose_device(wanted, built, gpu);
  job_.device = choice.device;
  options_.device_note = choice.note;
  if (job_.device == "cuda" && !built)
    return fail(ExitCode::kConfig,
                kCudaScripts ? "this build has CUDA for models in Python only" : "this build has no CUDA",
                "use --device cpu, or build the preset 'cuda'");
  if (job_.precision == "tf32" && job_.device != "cuda")
    return refuse({"precision", "device"}, "--precision tf32 is for GPUs",
                  "use fp32 or bf16 on CPUs, or --device cuda");
  return {};
}

Status Resolver::trainers_per_worker() {
  const std::string& text = raw_.trainers_per_worker;
  job_.trainers_per_worker = 1;
  options_.own_trainers = text != "auto";
  if (!options_.own_trainers) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job_.trainers_per_worker);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && job_.trainers_per_worker >= 1 && job_.trainers_per_worker <= kMostTrainers) return {};
  return refuse({"trainers-per-worker"}, str("--trainers-per-worker ", text, " is not a number"),
                str("use auto, or 1 to ", kMostTrainers));
}

Status Resolver::computing() {
  REKINDLE_CHECK(device());
  REKINDLE_CHECK(one_of("container-runtime", raw_.container_runtime, protocol::container_runtimes()));
  set_container(job_, whole_container(raw_.container, raw_.container_runtime, raw_.container_mounts));
  job_.threads = raw_.threads;
  job_.loader_threads = raw_.loader_threads;
  REKINDLE_CHECK(trainers_per_worker());
  if (options_.workers > kMostTrainers || options_.workers * job_.trainers_per_worker > kMostTrainers)
    return refuse({"workers"}, str("--workers ", options_.workers, " is too many"),
                  str("use at most ", kMostTrainers, " trainers on one machine"));
  REKINDLE_CHECK(one_of("exchange", raw_.exchange, protocol::exchanges()));
  job_.exchange = raw_.exchange;
  if (job_.exchange == "nccl" && job_.device == "cpu")
    return refuse({"exchange", "device"}, "--exchange nccl is for GPUs",
                  "use auto on CPUs, or --device cuda");
  REKINDLE_CHECK(one_of("exchange-integrity", raw_.exchange_integrity, {"on", "off", "true", "false"}));
  job_.exchange_integrity = is_on(raw_.exchange_integrity);
  return {};
}

Status check_device(const protocol::Job& job, const GpuState& gpu) {
  if (job.device != "cuda") return {};
  if (!gpu.why_not.empty()) return fail(ExitCode::kConfig, str("--device cuda: ", gpu.why_not));
  if (gpu.there) return {};
  return fail(ExitCode::kConfig, "--device cuda: this machine has no GPU (no /dev/nvidia0 or the like)",
              "use --device cpu");
}

}  // namespace rekindle::app
