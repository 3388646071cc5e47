#include "trainer/process.hpp"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "device/gpu_watch.hpp"
#include "exchange/device_hub.hpp"
#include "trainer/background_writer.hpp"
#include "trainer/plan.hpp"
#include "trainer/run_storage.hpp"
#include "trainer/socket_link.hpp"
#include "trainer/trainer.hpp"

namespace rekindle::trainer {

using protocol::Job;

namespace {

// The library that LibTorch has loaded. REKINDLE_NCCL_LIBRARY names another one, for tests on the twin of a
// GPU, which the real one cannot use.
Result<exchange::NcclApi> find_nccl(const Job& job) {
  const char* const library = std::getenv("REKINDLE_NCCL_LIBRARY");
  if (job.device == "twin" && library == nullptr) return fail(ExitCode::kConfig, "NCCL needs GPUs");
  return exchange::load_nccl(library == nullptr ? "" : library);
}

Result<std::unique_ptr<exchange::Hub>> open_device_hub(const Job& job, const device::Place& place,
                                                       std::size_t floats, const std::string& address,
                                                       PortRange ports) {
  exchange::DeviceHubOptions options{.place = place, .nccl = std::nullopt};
  // Also for an exchange that does not use NCCL, because the fingerprint must not depend on --exchange.
  if (auto nccl = find_nccl(job); nccl)
    options.nccl = *nccl;
  else if (job.exchange == "nccl")
    return forward_error(nccl.error());
  else if (job.exchange == "auto")
    log_warning(str("gradients go through host memory: ", nccl.error().line()));
  return exchange::open_device_hub(std::move(options), floats, address, ports);
}

Result<std::unique_ptr<exchange::Hub>> open_hub(const Job& job, const device::Place& place,
                                                std::size_t floats) {
  REKINDLE_TRY(const PortRange ports, parse_port_range(job.port_range));
  REKINDLE_TRY(std::string address, choose_address(interfaces(), job.interface));
  if (job.exchange == "shm") address.clear();  // no peer connects, so no port is needed
  if (place) return open_device_hub(job, place, floats, address, ports);
  return exchange::Hub::open(floats, address, ports);
}

// Logs the error, and sends it to the worker. Called before anything is destroyed.
using Report = std::function<void(const Error&)>;

// "cuda:1": GPU 1 of those that this process sees.
std::string name_of(const Job& job, const device::Device& device) {
  return job.device == "cuda" ? str(job.device, ":", device.index()) : job.device;
}

// REKINDLE_NVML_LIBRARY names another library, for tests without a GPU.
std::unique_ptr<device::GpuWatch> watch_gpu(const device::Device& device) {
  const std::string library = environment_variable("REKINDLE_NVML_LIBRARY");
  return std::make_unique<device::GpuWatch>(library.empty() ? "libnvidia-ml.so.1" : library,
                                            device.identity());
}

Status run(const TrainerConfig& config, Task& task, exchange::Hub& hub, SocketLink& link,
           const Report& report) {
  const Job& job = config.job;
  RunStorage storage(config.layout, job.init);
  const SteadyClock clock;
  // Declared after the task, because the writer may read the memory of the task until the writer is
  // destroyed.
  BackgroundWriter writer(link, config.layout.root());
  Trainer trainer({job, task, hub, link, writer, storage, clock});
  protocol::TrainerReady ready;
  ready.trainer = link.trainer();
  ready.host = host_name();
  ready.device = job.device;
  if (const device::Device* const device = task.place().device) {
    ready.device = name_of(job, *device);
    ready.gpu = device->name();
    ready.gpu_identity = device->identity();
    ready.gpus = device->gpus();
    if (const auto nccl = find_nccl(job); !nccl) ready.no_nccl = nccl.error().what;
    link.watch_gpu(watch_gpu(*device));
  }
  ready.address = to_address(hub.endpoint());
  ready.pid = ::getpid();
  Status status = trainer.warm_up(std::move(ready), config.build);
  if (status) status = trainer.run_until_quit();
  if (!status) report(status.error());
  // If the device has failed, each call to give its memory back may wait for ever. What is being written is
  // in host memory.
  if (!status && task.place() && status.error().kind == ErrorKind::kTask) {
    writer.finish();
    ::_exit(static_cast<int>(status.error().code));
  }
  return status;
}

Status run(const TrainerConfig& config, const MakeTask& make_task, SocketLink& link, const Report& report) {
  const auto failed = [&](const Error& error) {
    report(error);
    return forward_error(error);
  };
  const Result<std::unique_ptr<Task>> task = make_task(config.job);
  if (!task) return failed(task.error());
  const auto hub = open_hub(config.job, (*task)->place(), (*task)->gradient_floats());
  if (!hub) return failed(hub.error());
  return run(config, **task, **hub, link, report);
}

}  // namespace

Status run_trainer(const TrainerConfig& config, const MakeTask& make_task, Fd worker_socket) {
  SocketLink link(std::move(worker_socket), config.trainer);
  return run(config, make_task, link, [&](const Error& error) {
    log_error(error.line());
    const bool only_here = error.kind == ErrorKind::kNotYet;  // of device/gpu_claim
    link.send(protocol::TrainerFailed{config.trainer, static_cast<int>(error.code), error.what, error.hint,
                                      only_here});
  });
}

}  // namespace rekindle::trainer
