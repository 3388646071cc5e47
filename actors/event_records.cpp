#include "actors/event_records.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/record_parts.hpp"
#include "base/clock.hpp"
#include "base/process.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

nlohmann::json trainer_json(const std::string& name, const KnownTrainer& trainer) {
  nlohmann::json json = {{"trainer", name},
                         {"worker", trainer.worker},
                         {"host", trainer.ready.host},
                         {"device", trainer.ready.device}};
  if (!trainer.ready.gpu.empty()) json["gpu"] = trainer.ready.gpu;
  return json;
}

std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& other) {
  std::vector<std::string> rest;
  std::ranges::set_difference(all, other, std::back_inserter(rest));
  return rest;
}

}  // namespace

EventRecords::EventRecords(RecordWriter& writer, std::uint64_t attempt)
    : writer_(writer), file_(writer.layout().events()), attempt_(attempt) {}

// The supervisor of a Slurm job writes to this file, too. So the file is closed and opened again each time.
void EventRecords::append(const char* event, std::uint64_t step, nlohmann::json more) {
  more.update({{"event", event}, {"at", utc_now_ms()}, {"attempt", attempt_}, {"step", step}});
  writer_.add([this, line = std::move(more)] {
    if (writer_.superseded()) return;
    file_.close();
    writer_.warn_once(file_.append(line));
  });
}

void EventRecords::begin(bool restarted, const std::string& time_limit) {
  if (restarted) return append("recovered", 0, {{"cause", "coordinator"}, {"host", host_name()}});
  nlohmann::json line = {{"host", host_name()}, {"term", writer_.term()}};
  if (const std::string job = environment_variable("SLURM_JOB_ID"); !job.empty()) line["job"] = job;
  if (!time_limit.empty()) line["time_limit"] = time_limit;
  append("started", 0, std::move(line));
}

EventRecords::Interruption& EventRecords::interrupted() {
  if (!interruption_) interruption_ = Interruption{.began = boot_time()};
  interruption_->lost = interruption_->lost || std::exchange(lost_, false);
  return *interruption_;
}

void EventRecords::observe(const Coordinator& coordinator) {
  const bool runs = coordinator.phase() == Phase::kRunning;
  // The steps that follow are still of the generation that is over.
  if (known_.trainers > 0 && !runs) interrupted().formed = false;
  if (coordinator.generation() != known_.generation) {
    record_generation(coordinator);
  } else if (runs && interruption_ && !interruption_->formed) {
    // The generation was adopted, and goes on. If trainers were lost, the next step tells that they are back.
    if (interruption_->lost)
      interruption_->formed = true;
    else
      interruption_.reset();
  }
  lost_ = false;  // of a trainer that the others do not wait for
}

void EventRecords::record_generation(const Coordinator& coordinator) {
  std::vector<std::string> members = coordinator.members();
  std::ranges::sort(members);
  const std::vector<std::string> before = std::exchange(known_.members, members);
  const bool first = std::exchange(known_.generation, coordinator.generation()) == GenerationId{};
  const GenerationId& id = known_.generation;
  if (id.term != writer_.term()) return;  // adopted: the coordinator that formed it has recorded it
  nlohmann::json line = {{"generation", to_text(id)}, {"trainers", members.size()}};
  nlohmann::json joined = nlohmann::json::array();
  for (const std::string& name : without(members, before)) {
    const auto found = coordinator.trainers().find(name);
    if (found != coordinator.trainers().end()) joined.push_back(trainer_json(name, found->second));
  }
  // Without a generation before it, the list is complete.
  if (known_.trainers > 0) {
    Interruption& now = interrupted();
    now.joined = now.joined || !joined.empty();
    now.formed = coordinator.phase() == Phase::kRunning;
  }
  line[first ? "members" : "joined"] = std::move(joined);
  if (!first) line["left"] = without(before, members);
  append("generation", coordinator.step(), std::move(line));
}

void EventRecords::record(const RecordLoss& loss, std::uint64_t step) {
  lost_ = true;
  if (interruption_) interrupted();
  append("lost", step, {{"trainer", loss.trainer}, {"host", loss.host}, {"why", loss.why}});
}

void EventRecords::record(const SlowTrainers::Change& change, std::uint64_t step) {
  append(change.slow ? "slow" : "not_slow", step, {{"trainer", change.trainer}});
}

void EventRecords::record(const StepDone& done) {
  const std::uint64_t before = std::exchange(known_.trainers, done.trainers);
  if (!interruption_ || !interruption_->formed || done.generation != known_.generation) return;
  const Interruption was = *std::exchange(interruption_, std::nullopt);
  append("recovered", done.step,
         {{"generation", to_text(done.generation)},
          {"trainers", done.trainers},
          {"before", before},
          {"seconds", std::chrono::duration<double>(boot_time() - was.began).count()},
          {"cause", was.lost     ? "lost"
                    : was.joined ? "joined"
                                 : "other"}});
}

void EventRecords::record(const Evaluated& evaluated) {
  nlohmann::json line = {{"test_loss", evaluated.loss}, {"test_count", evaluated.count}};
  for (const auto& [name, value] : evaluated.metrics) line.emplace("test_" + name, value);
  append("evaluated", evaluated.step, std::move(line));
}

void EventRecords::commits(const Commit& commit) {
  commit_bytes_ = 0;
  for (const std::string& shard : commit.shards) {
    if (const auto entry = checkpoint::shard_entry_from_json(shard)) commit_bytes_ += entry->bytes;
  }
}

void EventRecords::committed(const CommitReply& reply) {
  if (!reply.error.empty()) return;
  append("saved", reply.step, {{"checkpoint", reply.checkpoint}, {"bytes", commit_bytes_}});
}

void EventRecords::record(const Sweep& sweep, std::uint64_t step) {
  append("restored", step, {{"checkpoint", sweep.restored}});
}

void EventRecords::record(const Rewind& rewind) {
  if (rewind.newest > rewind.step) append("rewound", rewind.step, {{"newest", rewind.newest}});
}

void EventRecords::end(int exit_code, const std::string& why, std::uint64_t step) {
  append(exit_code == 0               ? "finished"
         : has_saved_state(exit_code) ? "stopped"
                                      : "gave_up",
         step, {{"why", why}, {"exit_code", exit_code}});
  writer_.flush();
}

}  // namespace rekindle::actors
