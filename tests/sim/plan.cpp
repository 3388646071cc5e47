#include "plan.hpp"

namespace rekindle::sim {

using protocol::Phase;
using protocol::Time;
using protocol::TrainerPhase;

namespace {

protocol::Job make_job(Engine& dice) {
  protocol::Job job;
  job.micro_batches = dice.chance(0.5) ? 4 : 8;
  job.batch_size = 8;
  job.train_samples = 8 * static_cast<std::uint64_t>(dice.between(15, 40));
  job.test_samples = dice.chance(0.8) ? 24 : 0;
  job.steps = static_cast<std::uint64_t>(dice.between(50, 70));
  job.checkpoint_every = static_cast<std::uint64_t>(dice.between(8, 20));
  job.checkpoint_interval_ms = 0;
  job.hash_every = static_cast<std::uint64_t>(dice.between(3, 9));
  job.min_trainers = dice.chance(0.8) ? 1 : 2;
  job.keep = static_cast<std::uint64_t>(dice.between(1, 3));
  job.keep_best = dice.chance(0.3);
  return job;
}

// Shorter than in production, so that a schedule ends soon, but in the same order.
protocol::CoordinatorConfig make_timings() {
  protocol::CoordinatorConfig config;
  config.gather_time = Time(40000);
  config.regroup_time = Time(5000);
  config.adopt_time = Time(10000);
  config.lost_after = Time(2500);
  config.pause_deadline = Time(5000);
  config.hang_after = Time(7000);
  config.stall_after = Time(4000);
  config.link_pause = Time(400);
  config.join_batch = Time(300);
  config.quit_deadline = Time(4000);
  return config;
}

PlannedFault make_fault(Engine& dice, Ms duration) {
  PlannedFault fault;
  fault.fault = static_cast<Fault>(dice.below(static_cast<std::uint64_t>(Fault::kCount)));
  // Head nodes fail less often than trainers, and stops end the schedule.
  const bool rare = fault.fault == Fault::kReplaceHeadNode || fault.fault == Fault::kSuspendAll ||
                    fault.fault >= Fault::kStop;
  if (rare && dice.chance(0.6)) fault.fault = Fault::kKillTrainer;
  const std::uint64_t how = dice.below(10);
  if (how < 5) {
    fault.at = dice.between(0, duration);
  } else if (how < 8) {
    constexpr TrainerPhase kPhases[] = {
        TrainerPhase::kConnecting, TrainerPhase::kCopying,    TrainerPhase::kRestoring,
        TrainerPhase::kComputing,  TrainerPhase::kExchanging, TrainerPhase::kApplying,
        TrainerPhase::kEvaluating, TrainerPhase::kWriting,    TrainerPhase::kIdle};
    fault.trainer_phase = kPhases[dice.below(std::size(kPhases))];
    fault.at = dice.between(0, 30);
    fault.nth = static_cast<int>(dice.between(1, 20));
  } else {
    constexpr Fault kOfCoordinators[] = {Fault::kKillCoordinator,           Fault::kSuspendCoordinator,
                                         Fault::kReplaceHeadNode,           Fault::kBreakConnection,
                                         Fault::kKillCoordinatorAndTrainer, Fault::kDiskFull};
    if (dice.chance(0.5)) fault.fault = kOfCoordinators[dice.below(std::size(kOfCoordinators))];
    fault.coordinator_phase = static_cast<Phase>(dice.below(5));
    fault.at = dice.chance(0.5) ? dice.between(0, 50) : dice.between(0, 3000);
    fault.nth = static_cast<int>(dice.between(1, 3));
  }
  return fault;
}

}  // namespace

Plan make_plan(std::uint64_t seed) {
  Engine dice(mix64(seed ^ 0x706c616e));
  Plan plan;
  plan.seed = seed;
  plan.job = make_job(dice);
  plan.workers = static_cast<int>(dice.between(2, 4));
  plan.slots = dice.chance(0.25) ? 2 : 1;
  plan.hosts = static_cast<int>(dice.between(1, plan.workers));
  plan.peers_see_deaths = dice.chance(0.5);
  plan.on_devices = seed % 5 == 4;
  plan.leaf_ms = dice.between(3, 30);
  plan.write_ms = dice.chance(0.5) ? dice.between(5, 40) : dice.between(40, 600);
  plan.network_ms = dice.between(1, 20);
  plan.lag_ms = dice.chance(0.5) ? dice.between(0, 50) : dice.between(0, 2000);
  plan.timings = make_timings();
  plan.attempts = dice.chance(0.5) ? 2 : 1;
  if (dice.chance(0.02)) plan.poison = dice.chance(0.7) ? Poison::kCrashes : Poison::kNotFinite;
  plan.poison_step = dice.below(plan.job.steps);
  Engine samples_dice(mix64(seed ^ 0x73616d70));
  if (plan.poison == Poison::kNone && samples_dice.chance(0.03)) {
    plan.poison = Poison::kUnusable;
    if (plan.hosts > 1 && samples_dice.chance(0.5)) plan.unusable_on = "h1";
  }
  Engine bad_host_dice(mix64(seed ^ 0x62616468));
  if (plan.hosts > 1 && bad_host_dice.chance(0.05)) plan.bad_host = "h1";
  Engine more_dice(mix64(seed ^ 0x6d6f7265));
  if (more_dice.chance(0.3)) plan.update_ms = more_dice.between(20, 300);
  if (more_dice.chance(0.3))
    plan.job.checkpoint_interval_ms = static_cast<std::uint64_t>(more_dice.between(200, 3000));
  if (more_dice.chance(0.2)) plan.lag_ms = more_dice.between(2000, 6000);
  plan.checkpoint_lag_ms = more_dice.chance(0.5) ? plan.lag_ms : more_dice.between(1000, 7000);
  plan.requeued = more_dice.chance(0.5);
  plan.early_death = more_dice.chance(0.5);
  plan.job.ema = 0.5;
  // The mean gradient has a norm of about 0.65 with 4 micro-batches, and 0.45 with 8.
  if (more_dice.chance(0.5)) plan.job.clip_norm = 0.5;
  Engine nccl_dice(mix64(seed ^ 0x6e63636c));
  if (plan.on_devices && nccl_dice.chance(0.2)) {
    const Ms from = nccl_dice.chance(0.4) ? 0 : nccl_dice.between(500, 6000);
    const Ms lasts = nccl_dice.chance(0.3) ? 1000000000 : nccl_dice.between(1, 5000);
    plan.nccl_fails = {from, from + lasts, nccl_dice.chance(0.5)};
    if (nccl_dice.chance(0.3)) plan.job.exchange = "nccl";
    plan.nccl_fails->hangs = nccl_dice.chance(0.3);
    plan.nccl_fails->everywhere = plan.nccl_fails->everywhere || plan.nccl_fails->hangs;
  }
  plan.job.data_wait_ms = 6000;
  Engine away_dice(mix64(seed ^ 0x61776179));
  if (away_dice.chance(0.15)) {
    const Ms from = away_dice.between(300, 5000);
    const Ms lasts = away_dice.chance(0.6) ? away_dice.between(100, 2900) : away_dice.between(5000, 20000);
    plan.samples_away = {from, from + lasts, away_dice.chance(0.5),
                         plan.hosts > 1 && away_dice.chance(0.5) ? "h1" : ""};
  }
  const Ms step_ms = plan.leaf_ms * static_cast<Ms>(plan.job.micro_batches) / plan.workers + 20;
  const Ms duration = 1500 + step_ms * static_cast<Ms>(plan.job.steps);
  const int faults = static_cast<int>(dice.between(3, 9));
  for (int i = 0; i < faults; ++i) plan.faults.push_back(make_fault(dice, duration));
  return plan;
}

}  // namespace rekindle::sim
