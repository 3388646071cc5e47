#include "capi/rekindle.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "app/run_config.hpp"
#include "app/trainer_start.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "capi/compute_device.hpp"
#include "capi/foreign_task.hpp"
#include "data/loader.hpp"
#include "device/local_rank.hpp"

using namespace rekindle;

struct rk_trainer {
  app::StartedTrainer started;
  int local_rank = device::local_rank();    // a script must not find it in its environment
  capi::ComputeDevice device;               // lives longer than the task
  std::optional<Error> no_device;           // why none could be opened
  std::string job;                          // as JSON
  std::unique_ptr<capi::ForeignTask> made;  // until rk_run()
  capi::ForeignTask* task = nullptr;        // always the same
  std::optional<data::SampleOrder> order;

  const protocol::Job& options() const { return started.config->job; }
  capi::StateMemory& memory() const { return task->memory(); }
};

namespace {

std::string last_error;  // one thread makes all calls
int exit_code = 0;

int failed(const Error& error) {
  last_error = error.line();
  exit_code = static_cast<int>(error.code);
  return RK_FAILED;
}

// No exception crosses the interface: it would end the process without a line.
template <class Act>
int result_of(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return failed(
        {ExitCode::kGaveUp, "there is not enough memory", "use fewer trainers on this machine", {}});
  } catch (const std::exception& error) {
    return failed({ExitCode::kGaveUp, str("an internal error: ", error.what()), "report it as a bug", {}});
  }
}

std::string own_path() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<const void*>(&rk_open), &info) != 0 ? info.dli_fname : "";
}

std::filesystem::path own_folder() { return std::filesystem::path(own_path()).parent_path(); }

Result<checkpoint::TensorSpec> spec_of(const rk_tensor& tensor) {
  checkpoint::TensorSpec spec;
  spec.name = tensor.name;
  spec.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  using enum checkpoint::Role;
  spec.role = tensor.role == RK_PARAMETER ? kParameter : tensor.role == RK_BUFFER ? kBuffer : kOptimizer;
  const auto dtype = checkpoint::dtype_named(tensor.dtype);
  if (!dtype)
    return fail(ExitCode::kConfig, str("the model's tensor ", spec.name, " is of type ", tensor.dtype));
  spec.dtype = *dtype;
  return spec;
}

int run_as(const rk_trainer& trainer, const trainer::MakeTask& make_task) {
  int code = 0;
  const int result = result_of([&] {
    const Status status = trainer::run_trainer(*trainer.started.config, make_task, Fd(kInheritedFd));
    if (!status) code = static_cast<int>(status.error().code);  // it has logged the error
    return RK_OK;
  });
  if (result == RK_OK) return code;
  log_error(last_error);
  return exit_code;
}

int open(int argc, char** argv, std::unique_ptr<rk_trainer>& trainer) {
  trainer = std::make_unique<rk_trainer>();
  if (const auto code = app::start_trainer(argc, argv, own_path(), trainer->started)) {
    exit_code = *code;
    return RK_FAILED;
  }
  trainer->job = nlohmann::json(trainer->options()).dump();
  trainer->order.emplace(trainer->options().seed, trainer->options().train_samples);
  return RK_OK;
}

int open_device(rk_trainer& trainer, rk_device& device) {
  auto opened = capi::open_device(trainer.options().device, trainer.local_rank, own_folder());
  if (!opened) return failed(trainer.no_device.emplace(std::move(opened.error())));
  trainer.device = std::move(*opened);
  const capi::ComputeDevice& made = trainer.device;
  device = {.gpu = made.is_gpu ? made.device->index() : -1,
            .stream = made.is_gpu ? made.stream->native() : nullptr};
  return RK_OK;
}

int set_state(rk_trainer& trainer, std::span<const rk_tensor> tensors, capi::Machine machine) {
  checkpoint::StateSpec model;
  for (const rk_tensor& tensor : tensors) {
    auto spec = spec_of(tensor);
    if (!spec) return failed(spec.error());
    model.push_back(std::move(*spec));
  }
  auto task = capi::ForeignTask::make(trainer.options(), model, std::move(machine), trainer.device);
  if (!task) return failed(task.error());
  trainer.made = std::move(*task);
  trainer.task = trainer.made.get();
  return RK_OK;
}

}  // namespace

extern "C" {

int rk_interface(void) { return RK_INTERFACE; }

const char* rk_build(void) {
  static const std::string build = app::build_of(own_path()).value_or("");
  return build.c_str();
}

const char* rk_error(void) { return last_error.c_str(); }
int rk_exit_code(void) { return exit_code; }

rk_trainer* rk_open(int argc, char** argv) {
  std::unique_ptr<rk_trainer> trainer;
  last_error.clear();
  if (result_of([&] { return open(argc, argv, trainer); }) == RK_OK) return trainer.release();
  if (!last_error.empty()) log_error(last_error);  // any other one was printed
  return nullptr;
}

const char* rk_job(const rk_trainer* trainer) { return trainer->job.c_str(); }

void rk_log(int level, const char* text) {
  level == 0 ? log_info(text) : level == 1 ? log_error(text) : log_warning(text);
}

int rk_look_for_gpu(void) {
  return result_of([] {
    const Status checked = capi::check_driver(own_folder());
    return checked ? RK_OK : failed(checked.error());
  });
}

int rk_open_device(rk_trainer* trainer, rk_device* device) {
  return result_of([=] { return open_device(*trainer, *device); });
}

int rk_set_state(rk_trainer* trainer, const rk_tensor* tensors, size_t count, const char* fingerprint,
                 const char* machine) {
  return result_of([=] { return set_state(*trainer, {tensors, count}, {fingerprint, machine}); });
}

void* rk_value(rk_trainer* trainer, size_t tensor) { return trainer->task->value_of(tensor); }

void* rk_average(rk_trainer* trainer, size_t tensor) {
  capi::StateMemory& memory = trainer->memory();
  const trainer::TensorPlace& place = memory.layout().tensors()[tensor];
  const std::span<float> average = memory.average();
  return average.empty() || !place.is_float() ? nullptr : &average[place.offset];
}

size_t rk_place(const rk_trainer* trainer, size_t tensor) {
  return trainer->memory().layout().tensors()[tensor].offset;
}

size_t rk_samples(const rk_trainer* trainer, uint64_t step, int32_t micro_batch, uint64_t* epochs,
                  uint64_t* indices) {
  const protocol::Job& job = trainer->options();
  const std::uint64_t count = job.batch_size / job.micro_batches;
  if (indices == nullptr) return count;
  const std::uint64_t first = step * job.batch_size + static_cast<std::uint64_t>(micro_batch) * count;
  const int result = result_of([&] {  // the order of an epoch takes memory
    for (std::uint64_t i = 0; i < count; ++i) {
      epochs[i] = (first + i) / job.train_samples;
      indices[i] = trainer->order->sample_at(first + i);
    }
    return RK_OK;
  });
  return result == RK_OK ? count : 0;
}

uint64_t rk_initial_key(uint64_t seed) { return stream_key(seed, Draws::kInit); }

uint64_t rk_micro_batch_key(uint64_t seed, uint64_t step, int32_t micro_batch) {
  return stream_key(seed, Draws::kDropout, {step, static_cast<std::uint64_t>(micro_batch)});
}

uint64_t rk_sample_key(uint64_t seed, uint64_t epoch, uint64_t index) {
  return stream_key(seed, Draws::kAugment, {epoch, index});
}

void rk_add_metric(rk_trainer* trainer, const char* name) { trainer->task->add_metric(name); }

void rk_fail(rk_trainer* trainer, const char* what, const char* hint) {
  trainer->task->set_failure({ExitCode::kGaveUp, what, hint});
}

int rk_give_up(rk_trainer* trainer, int code, const char* what, const char* hint) {
  return run_as(*trainer, [&](const protocol::Job&) -> Result<std::unique_ptr<trainer::Task>> {
    if (trainer->no_device) return forward_error(*trainer->no_device);
    return fail(static_cast<ExitCode>(code), what, hint);
  });
}

int rk_run(rk_trainer* trainer, const rk_calls* calls) {
  return run_as(*trainer, [=](const protocol::Job&) -> Result<std::unique_ptr<trainer::Task>> {
    REKINDLE_CHECK(trainer->task->begin(*calls));
    return std::move(trainer->made);
  });
}

}  // extern "C"
