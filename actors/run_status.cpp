#include "actors/run_status.hpp"

#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"

namespace rekindle::actors {

using namespace protocol;

RunStatus::RunStatus(RecordWriter& writer, std::uint64_t steps, std::uint64_t attempt)
    : writer_(writer), steps_(steps), attempt_(attempt) {}

void RunStatus::show(const Coordinator& coordinator, const LastStep& last) {
  if (!ended_) write(coordinator, last, "running");
}

void RunStatus::show_end(const Coordinator& coordinator, const LastStep& last, int exit_code,
                         const std::string& line) {
  ended_ = true;
  end_ = line;
  write(coordinator, last, exit_code == 0 ? "finished" : has_saved_state(exit_code) ? "saved" : "failed");
}

namespace {

nlohmann::json trainer_json(const std::string& name, const KnownTrainer& trainer) {
  nlohmann::json json = {{"trainer", name},
                         {"rank", trainer.rank},
                         {"host", trainer.ready.host},
                         {"device", trainer.ready.device},
                         {"pid", trainer.ready.pid},
                         {"phase", to_text(trainer.beat.phase)},
                         {"step", trainer.beat.step},
                         {"cpu_percent", trainer.beat.use.cpu_percent},
                         {"memory_bytes", trainer.beat.use.memory_bytes},
                         {"peak_pss_bytes", trainer.peak_pss_bytes}};
  const GpuUse& use = trainer.beat.gpu;
  if (!trainer.ready.gpu.empty()) json["gpu"] = trainer.ready.gpu;
  if (use.total_bytes > 0) {
    json["gpu_used_bytes"] = use.used_bytes;
    json["gpu_total_bytes"] = use.total_bytes;
  }
  if (use.busy_percent >= 0) json["gpu_busy_percent"] = use.busy_percent;
  return json;
}

}  // namespace

void RunStatus::write(const Coordinator& coordinator, const LastStep& last, const std::string& state) {
  nlohmann::json trainers = nlohmann::json::array();
  for (const auto& [name, trainer] : coordinator.trainers()) {
    trainers.push_back(trainer_json(name, trainer));
    if (slow_.is_slow(name)) trainers.back()["slow"] = true;
  }
  // At the end no trainer is left. The last trainers stay in the status, to show the run's use of resources.
  if (!trainers.empty()) trainers_ = std::move(trainers);
  nlohmann::json status = {{"state", state},
                           {"term", writer_.term()},
                           {"attempt", attempt_},
                           {"generation", to_text(coordinator.generation())},
                           {"phase", to_text(coordinator.phase())},
                           {"step", coordinator.step()},
                           {"steps", steps_},
                           {"voided_steps", last.voided},
                           {"trainers", trainers_},
                           {"end", end_},
                           {"updated", utc_now()}};
  // Without a step of this attempt they are not known.
  if (last.done.step > 0)
    status.update({{"epoch", last.done.epoch},
                   {"loss", last.done.loss},
                   {"images_per_second", last.done.images_per_second}});
  if (!text_.put(status.dump(2) + "\n")) return;
  writer_.add([this] {
    const std::string text = text_.take();
    // After a take-over, the new coordinator writes the status.
    if (!writer_.superseded()) writer_.warn_once(replace_file_quickly(writer_.layout().status(), text));
  });
}

}  // namespace rekindle::actors
