// The parts around the real trainer::Trainer of a virtual process: link, task, writer, storage and clock.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "disk.hpp"
#include "model.hpp"
#include "process.hpp"
#include "protocol/trainer_control.hpp"
#include "trainer/checkpoint_writer.hpp"
#include "trainer/clock.hpp"
#include "trainer/link.hpp"
#include "trainer/storage.hpp"
#include "trainer/task.hpp"

namespace rekindle::sim {

class TrainerProcess;

class SimClock final : public trainer::Clock {
 public:
  explicit SimClock(TrainerProcess& process) : process_(process) {}
  TimePoint now() const override;
  void sleep(std::chrono::milliseconds time) const override;

 private:
  TrainerProcess& process_;
};

// The control thread calls on_message(); the step loop calls everything else.
class SimLink final : public trainer::Link {
 public:
  explicit SimLink(TrainerProcess& process) : process_(process) {}

  void on_message(const protocol::ToTrainer& message);
  const protocol::TrainerControl& control() const { return control_; }
  bool inside() const { return exchange_ != nullptr; }
  protocol::TrainerPhase phase() const { return phase_; }
  protocol::TrainerBeat beat() const;

  const std::string& trainer() const override;
  void send(const protocol::FromTrainer& message) override;
  std::optional<protocol::Start> wait() override;
  void enter(const protocol::GenerationId& generation, exchange::Exchange& exchange) override;
  void leave() override;
  const std::atomic<bool>& aborted() const override { return aborted_; }
  std::uint32_t flags() override { return control_.flags(); }
  void checkpoint_postponed() override { control_.checkpoint_postponed(); }
  void checkpoint_begins() override { control_.checkpoint_begins(); }
  void set_phase(protocol::TrainerPhase phase, std::uint64_t step) override;
  void progress() override { ++progress_; }
  void block_written() override {}

 private:
  TrainerProcess& process_;
  protocol::TrainerControl control_;
  protocol::Start start_;  // the Start that was entered last
  exchange::Exchange* exchange_ = nullptr;
  std::atomic<bool> aborted_ = false;
  bool news_ = false;
  protocol::TrainerPhase phase_ = protocol::TrainerPhase::kStarting;
  std::uint64_t step_ = 0, progress_ = 0;
};

class SimTask final : public trainer::Task {
 public:
  explicit SimTask(TrainerProcess& process);

  Status initialize() override;
  checkpoint::State state() override { return model_.host().state(); }
  Status download() override { return {}; }
  Status upload() override { return {}; }
  trainer::Arenas arenas() override { return model_.host().arenas(); }
  std::size_t gradient_floats() const override { return kFloats; }
  std::vector<trainer::GradientTensor> gradient_tensors() const override;
  trainer::FloatRange parameter_floats() const override {
    return {model_.layout().first_parameter_float(), model_.layout().end_of_parameters()};
  }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  void expect_steps(std::uint64_t, std::vector<int>, std::vector<int>) override {}
  void end_of_steps() override {}
  Result<trainer::MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                          const std::atomic<bool>& aborted) override;
  Result<trainer::EvaluationResult> evaluate(std::uint64_t first, std::uint64_t count,
                                             const std::atomic<bool>& aborted) override;
  Status not_read();  // the samples are away
  std::vector<std::string> take_skipped() override { return std::exchange(skipped_, {}); }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override;
  Status finish_update() override;
  std::string fingerprint() const override { return "{}"; }
  std::string describe_machine() const override { return "virtual"; }

  State snapshot() const { return model_.snapshot(); }
  void flip_bit() { model_.flip_bit(); }

 private:
  TrainerProcess& process_;
  Model model_;
  std::vector<std::string> skipped_;
};

class SimWriter final : public trainer::CheckpointWriter {
 public:
  explicit SimWriter(TrainerProcess& process) : process_(process) {}

  void begin(const trainer::ShardId& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
             const trainer::Arenas& arenas, bool pauses) override;
  bool busy() const override { return writing_.has_value(); }
  void release(std::uint64_t step) override;
  void release_to_update(std::uint64_t step) override { release(step); }
  bool checks() const override { return false; }
  void before_change(std::size_t, std::size_t) override {}
  void expect_no_update() override {}
  void finish() override;

  bool writes(const CheckpointId& id) const { return writing_ && writing_->id == id; }

 private:
  struct Writing {
    CheckpointId id;
    int rank = 0;
    std::string digest;  // digest from the hashes of the state
    bool tainted = false;
    std::optional<State> read;  // a copy of the state, which the step loop may change
  };
  void write();
  void finish_shard();
  void fail(const std::string& why, bool changed = false);
  protocol::ShardWritten written() const;

  TrainerProcess& process_;
  std::optional<Writing> writing_;
};

class SimStorage final : public trainer::Storage {
 public:
  explicit SimStorage(TrainerProcess& process) : process_(process) {}
  bool has_checkpoint() override { return false; }
  Status load_initial(const checkpoint::State&) override { return {}; }
  Result<checkpoint::Manifest> read_manifest(const std::string& name) override;
  Status read_part(const std::string& name, const checkpoint::Manifest& manifest, int parts, int part,
                   const checkpoint::State& state, const std::function<Status()>& each_block) override;

 private:
  TrainerProcess& process_;
};

}  // namespace rekindle::sim
