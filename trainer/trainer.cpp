#include "trainer/trainer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "checkpoint/initial_state.hpp"
#include "data/loader.hpp"
#include "exchange/exchange.hpp"
#include "model/device.hpp"
#include "model/model.hpp"
#include "model/numeric_check.hpp"
#include "protocol/fingerprint.hpp"
#include "run/layout.hpp"
#include "trainer/link.hpp"
#include "trainer/replica_state.hpp"
#include "trainer/step_loop.hpp"

#include <unistd.h>

namespace rekindle::trainer {

using namespace protocol;

namespace {

model::ModelConfig model_config(const Job& job, const data::DatasetInfo& info) {
  model::ModelConfig config;
  config.model = job.model;
  config.classes = static_cast<int>(job.classes);
  config.channels = info.channels;
  config.image_size = static_cast<int>(job.image_size);
  config.dropout = job.dropout;
  config.seed = job.seed;
  config.optimizer = job.optimizer;
  config.momentum = job.momentum;
  config.weight_decay = job.weight_decay;
  config.device = job.device == "cuda" ? "cuda:0" : "cpu";
  config.threads = static_cast<int>(job.threads);
  return config;
}

Address to_address(const exchange::Endpoint& e) {
  return {e.host, e.address, e.nonce, e.pid, e.control_fd, e.port};
}

exchange::Endpoint to_endpoint(const Address& a) {
  exchange::Endpoint e;
  e.host = a.host;
  e.pid = a.pid;
  e.control_fd = a.control_fd;
  e.address = a.address;
  e.port = a.port;
  e.nonce = a.nonce;
  return e;
}

exchange::Backend backend_of(const std::string& name) {
  if (name == "shm") return exchange::Backend::kSharedMemory;
  if (name == "tcp") return exchange::Backend::kTcp;
  return exchange::Backend::kAuto;
}

exchange::Plan plan_of(const Job& job, const Start& start) {
  exchange::Plan plan;
  plan.term = start.generation.term;
  plan.generation = start.generation.number;
  plan.rank = start.rank;
  plan.leaves = static_cast<int>(job.micro_batches);
  for (const Member& member : start.members) plan.members.push_back(to_endpoint(member.address));
  plan.secret = start.secret;
  plan.backend = backend_of(job.exchange);
  plan.integrity = job.exchange_integrity;
  return plan;
}

// One trainer's parts, from its first warm-up to Quit.
class Trainer {
 public:
  Trainer(const TrainerConfig& config, Link& link)
      : config_(config), layout_(config.run_dir), link_(link), writer_(link, layout_.root()) {}

  Status warm_up() {
    const Job& job = config_.job;
    REKINDLE_TRY(dataset_, data::open_dataset(job.dataset, job.data));
    // Gradients of other samples would be a wrong state that nobody notices.
    if (!job.data_hash.empty() && dataset_->info().content_hash != job.data_hash) {
      return fail(ExitCode::kConfig,
                  str("the data in ", job.data, " on ", host_name(), " are not this run's"),
                  "every machine needs the files that the run was started with");
    }
    model_config_ = model_config(job, dataset_->info());
    REKINDLE_CHECK(make_replica());
    REKINDLE_TRY(hub_, open_hub());
    data::LoaderConfig loading;
    loading.seed = job.seed;
    loading.leaves = static_cast<int>(job.micro_batches);
    loading.leaf_batch = static_cast<int>(job.batch_size / job.micro_batches);
    loading.transform = {static_cast<int>(job.image_size), job.augment};
    loading.threads = static_cast<int>(job.loader_threads);
    loader_ = std::make_unique<data::Loader>(*dataset_, loading);
    nlohmann::json fingerprint = nlohmann::json::parse(model::numeric_fingerprint(model_config_));
    fingerprint["build"] = config_.build;
    const auto started = Clock::now();
    REKINDLE_TRY(fingerprint[kFirstGradient], first_gradient());
    const std::chrono::duration<double, std::milli> check_time = Clock::now() - started;
    // Here an error ends a run that has not begun; with a checkpoint nobody may ever need the file.
    if (checkpoint::list_committed(layout_.root()).empty()) REKINDLE_CHECK(initialize());
    link_.set_phase(TrainerPhase::kIdle, 0);
    link_.send(TrainerReady{link_.trainer(), host_name(), job.device, fingerprint.dump(),
                            to_address(hub_->endpoint()), ::getpid(), model::describe_machine(model_config_),
                            check_time.count()});
    return {};
  }

  // The numeric handshake: a hash of micro-batch 0 of step 0. It is computed from the values that the seed
  // draws, also with --init: a file may be gone when the run goes on from a checkpoint. No generation has
  // begun, so slot 0 holds nothing yet.
  Result<std::string> first_gradient() {
    REKINDLE_TRY(const std::span<float> gradient, hub_->slot(0));
    if (config_.job.device == "cuda") REKINDLE_CHECK(model::pin_host_memory(gradient));
    loader_->start(0, {0});
    data::LeafBatch batch = loader_->next();
    const auto check = model::check_numerics(*replica_, model_config_, batch.images, batch.labels,
                                             stream_key(config_.job.seed, Draws::kDropout, {0, 0}), gradient,
                                             link_.aborted());
    loader_->recycle(std::move(batch));
    loader_->stop();
    if (!check) return forward_error(check.error());
    if (check->mismatch.empty()) return check->hash;
    return fail(ExitCode::kConfig,
                str("something on ", host_name(),
                    " is not deterministic: the same micro-batch computed twice gives another ",
                    check->mismatch, " (", model::describe_machine(model_config_), ")"),
                "suspect the hardware, or a library that is loaded besides");
  }

  // An error when this trainer can be of no use any more.
  Result<Parked> run(const Start& start) {
    Parked parked = run_until_parked(start);
    fresh_ = initialized_ = false;
    REKINDLE_CHECK(failure_);
    return parked;
  }

 private:
  Parked run_until_parked(const Start& start) {
    std::unique_ptr<exchange::Exchange> exchange = hub_->make(plan_of(config_.job, start));
    link_.enter(start.generation, *exchange);
    Parked parked = run_in(start, *exchange);
    link_.leave();
    return parked;
  }

  Parked run_in(const Start& start, exchange::Exchange& exchange) {
    if (const auto why = refusal(start, held_)) return parked(start, ParkReason::kRefused, *why);
    link_.set_phase(TrainerPhase::kConnecting, start.step);
    last_checkpoint_ = Clock::now() - std::chrono::milliseconds(start.unsaved_ms);
    // What is held counts for nothing any more, whether this generation comes about or not.
    if (start.sources.empty()) held_ = {false, 0};
    if (auto status = exchange.connect(); !status)
      return parked(start, status.error(), ParkReason::kExchangeFailed);
    // Whoever is no source gets another state.
    if (std::ranges::find(start.sources, start.rank) == start.sources.end()) sums_.forget();
    if (start.sources.size() < start.members.size()) writer_.release(start.step);
    if (start.sources.empty()) {
      if (auto status = reach(start, exchange); !status)
        return parked(start, status.error(), ParkReason::kRestoreFailed);
    } else if (start.sources.size() < start.members.size()) {
      link_.set_phase(TrainerPhase::kCopying, start.step);
      const auto compared = copy(*replica_, exchange, start, held_);
      if (!compared) return parked(start, compared.error(), ParkReason::kExchangeFailed);
      if (!compared->alike) {
        Parked differs = parked(start, ParkReason::kStatesDiffer, "the copies of the state are not alike");
        differs.differing = compared->minority;
        return differs;
      }
    }
    data::TransformConfig test_transform{static_cast<int>(config_.job.image_size), false};
    StepLoop loop({config_.job, *dataset_, test_transform, *loader_, *hub_, *replica_, link_, held_, sums_,
                   writer_, last_checkpoint_, history_},
                  start, exchange);
    return loop.run();
  }

  Result<std::unique_ptr<exchange::Hub>> open_hub() {
    const Job& job = config_.job;
    REKINDLE_TRY(const PortRange ports, parse_port_range(job.port_range));
    REKINDLE_TRY(std::string address, choose_address(interfaces(), job.interface));
    if (job.exchange == "shm") address.clear();  // nobody will call: no port
    return exchange::Hub::open(replica_->arena_floats(), address, ports);
  }

  // Brings the replica to the state of a checkpoint, or to its initial values.
  Status reach(const Start& start, exchange::Exchange& exchange) {
    if (start.restore.empty()) {
      failure_ = begin();
      held_ = {failure_.has_value(), 0};
      return failure_;
    }
    link_.set_phase(TrainerPhase::kRestoring, start.step);
    const auto directory = layout_.checkpoints() / start.restore;
    REKINDLE_TRY(const std::uint64_t step,
                 restore(*replica_, exchange, directory, static_cast<int>(start.members.size()), start.rank));
    if (step != start.step) return fail(str(directory.string(), " is of step ", step, ", not ", start.step));
    held_ = {true, step};
    return {};
  }

  Status make_replica() {
    replica_.reset();
    REKINDLE_TRY(replica_, model::Replica::make(model_config_));
    return {};
  }

  // What the run starts from, where that is not what its model draws.
  Status initialize() {
    if (config_.job.init.empty()) return {};
    const auto file = layout_.initial_state();
    std::ignore = await_file(file, kNamesAreSeenWithin);
    REKINDLE_CHECK(checkpoint::load_initial(file, config_.job.init, replica_->state()));
    REKINDLE_CHECK(replica_->upload());
    initialized_ = true;
    return {};
  }

  Status begin() {
    if (!fresh_) REKINDLE_CHECK(make_replica());
    return initialized_ ? Status{} : initialize();
  }

  Parked parked(const Start& start, ParkReason reason, const std::string& why) {
    link_.set_phase(TrainerPhase::kIdle, held_.step);
    return {start.generation, link_.trainer(), held_.whole, held_.step, reason, -1, {}, why};
  }

  Parked parked(const Start& start, const Error& error, ParkReason reason) {
    if (reason == ParkReason::kRestoreFailed && !checkpoint::is_damage(error))
      reason = error.code == ExitCode::kConfig ? ParkReason::kUnsuitable : ParkReason::kUnreadable;
    if (exchange::is_aborted(error)) reason = ParkReason::kAborted;
    const int peer = exchange::failed_rank(error);
    if (peer >= 0) reason = ParkReason::kExchangeFailed;
    if (exchange::is_altered(error)) reason = ParkReason::kDataAltered;
    Parked parked = this->parked(start, reason, error.line());
    parked.peer = peer;
    return parked;
  }

  const TrainerConfig& config_;
  const run::Layout layout_;
  Link& link_;
  model::ModelConfig model_config_;
  std::unique_ptr<data::Dataset> dataset_;
  std::unique_ptr<model::Replica> replica_;
  std::unique_ptr<exchange::Hub> hub_;
  std::unique_ptr<data::Loader> loader_;
  Held held_;
  PartialSums sums_;
  bool fresh_ = true;                  // the replica has its initial values
  bool initialized_ = false;           // those of the file that the run starts from
  Status failure_;                     // there is nothing to start from
  Clock::time_point last_checkpoint_;  // when it began
  std::deque<StepDone> history_;
  CheckpointWriter writer_;  // last: it may still read the replica
};

}  // namespace

Status run_trainer(const TrainerConfig& config, Fd worker_socket) {
  Link link(std::move(worker_socket), config.trainer);
  Trainer trainer(config, link);
  const auto failed = [&](const Error& error) {
    link.send(TrainerFailed{config.trainer, static_cast<int>(error.code), error.what, error.hint});
    return forward_error(error);
  };
  if (auto status = trainer.warm_up(); !status) return failed(status.error());
  while (const auto start = link.wait()) {
    log_info(str("generation ", to_text(start->generation), ": rank ", start->rank, " of ",
                 start->members.size(), ", from step ", start->step));
    const auto parked = trainer.run(*start);
    if (!parked) return failed(parked.error());
    log_info(str("parked at step ", parked->held_step, parked->detail.empty() ? "" : ": ", parked->detail));
    link.send(*parked);
  }
  return {};
}

}  // namespace rekindle::trainer
