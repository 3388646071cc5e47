// How a generation is formed: when, from which state, of which trainers.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/fingerprint.hpp"
#include "protocol/gpu_lines.hpp"

namespace rekindle::protocol {

namespace {
constexpr std::size_t kShownMembers = 64;  // rows printed for a new generation; `rekindle status` shows all
}  // namespace

Coordinator::Origin Coordinator::origin() const {
  Origin origin;
  bool held = false;
  if (!ledger_.suspect.must_restore()) {
    for (const auto& [name, trainer] : membership_.trainers) {
      if (!trainer.paused || !trainer.paused->holds) continue;
      const std::uint64_t step = trainer.paused->held_step;
      if (held && step < origin.step) continue;
      if (!held || step > origin.step) origin.holders.clear();
      held = true;
      origin.step = step;
      origin.holders.insert(name);
    }
  }
  const Restorable* const newest = ledger_.committed.newest();
  if (newest != nullptr && (!held || newest->step > origin.step)) return {newest->step, {}, newest};
  if (planted(Bug::kHighestStepOffByOne) && held && origin.step > 0) --origin.step;
  if (held) return origin;
  return {};  // initial values: every trainer computes them itself
}

bool Coordinator::nothing_to_save(const Origin& origin) const {
  return origin.holders.empty() || origin.step == 0 || committed_step() == origin.step;
}

void Coordinator::form_if_possible() {
  if (stop_.ending) return;
  const bool may_adopt = config_.restarted && !history_.any_formed && !waited_long_enough();
  // A state that no trainer has in memory any more may be about to be committed. Going back further would
  // repeat its steps, and a stop must not end before its commit.
  const auto better_commit_under_way = [this] {
    const Origin from = origin();
    return from.holders.empty() && ledger_.open.any_committing_beyond(from.step);
  };
  if (stop_) {
    const Origin from = origin();
    if (may_adopt && !enough_trainers()) return;  // a generation that must be saved may still be running
    if (better_commit_under_way()) return wait_for_trainers();
    if (nothing_to_save(from)) return end(saved_finish(from.step));
    if (ledger_.open.any_of_step(from.step) || times_.now < times_.write_again_at) return wait_for_trainers();
    return form();
  }
  if (enough_trainers() && times_.now >= times_.hold_until && !better_commit_under_way()) return form();
  wait_for_trainers();
}

void Coordinator::wait_for_trainers() {
  if (phase() == Phase::kGathering) return;
  phase_.enter(GatheringPhase{times_.now + config_.regroup_time});
  if (!times_.gather_until) times_.gather_until = times_.now + config_.gather_time;
  if (times_.now >= times_.hold_until)
    emit(Info{str("waiting for trainers: ", membership_.trainers.size(), " are there")});
}

bool Coordinator::waited_long_enough() const {
  const auto* const gathering = phase_.get<GatheringPhase>();
  return gathering == nullptr || times_.now >= gathering->until;
}

bool Coordinator::enough_trainers() const {
  const std::size_t there = membership_.trainers.size();
  if (there == 0 || there < config_.job.min_trainers) return false;
  // Joining trainers may find a restarted coordinator sooner than the members of a running generation.
  if (!history_.any_formed && config_.restarted && times_.now < times_.began + config_.lost_after)
    return false;
  if (!history_.any_formed) {
    const auto expected = static_cast<std::size_t>(std::max(config_.expected_trainers, 1));
    return (there >= expected && membership_.own_trainer_there()) || waited_long_enough();
  }
  if (phase() != Phase::kGathering || !origin().holders.empty()) return true;
  // No trainer has a state: waiting for trainers that are being restarted loses nothing.
  return there >= membership_.slots() || waited_long_enough();
}

void Coordinator::form() {
  if (!one_gpu_each()) return;
  if (!history_.any_formed && !membership_.trainers.empty()) {
    if (!choose_bits()) return;
    if (membership_.trainers.size() < config_.job.min_trainers) return wait_for_trainers();
  }
  const Origin from = origin();
  if (from.restore != nullptr && other_fingerprint(*from.restore) && config_.job.strict) {
    const std::string writer =
        writer_of(is_script(config_.job), without_initial_values(from.restore->fingerprint),
                  without_initial_values(fingerprint_.text));
    return end({78, str("checkpoint ", from.restore->checkpoint, " was written by ", writer),
                "leave --strict out to go on with bits that may differ"});
  }
  if (!from.holders.empty()) went_on();
  const std::string restore = from.restore != nullptr ? from.restore->checkpoint : "";
  ledger_.restore.begin(restore);
  generation_ = {.id = {config_.term, ++history_.own_generations},
                 .members = choose_members(from),
                 .sources = from.holders,
                 .began = from.step,
                 .saves = static_cast<bool>(stop_)};
  history_.past.remember(generation_);
  times_.gather_until.reset();
  phase_.enter(RunningPhase{});
  history_.any_formed = true;
  history_.step = from.step;
  faults_.step_crashes.forgive();
  faults_.step_hangs.forgive();
  faults_.step_exchanges.forgive();
  stop_.last_step_at = times_.now;
  const std::uint64_t newest = log_.newest();
  if (log_.rewind(history_.step)) {
    emit(Rewind{.step = history_.step, .newest = newest});
    emit(Info{
        str("to be made again: ", counted(newest - history_.step, "step"), " after step ", history_.step)});
  }
  show_members(from);

  Start start;
  start.generation = generation_.id;
  start.step = history_.step;
  start.recorded = log_.newest();
  start.restore = ledger_.restore.checkpoint();
  start.verified = ledger_.restore.verified();
  // The time is passed on, because a trainer may run for less than the checkpoint interval.
  start.unsaved_ms = static_cast<std::uint64_t>(std::max(Time(0), times_.now - ledger_.open.began).count());
  start.saved = committed_step() == history_.step;
  start.evaluate = evaluation_due(config_.job, history_.step) && !log_.is_evaluated(history_.step);
  start.stop = static_cast<bool>(stop_);
  start.without_nccl = without_nccl();
  if (planted(Bug::kStopLostWithCarrier)) start.stop = false;
  std::vector<Member> list;
  list.reserve(generation_.members.size());
  for (std::size_t rank = 0; rank < generation_.members.size(); ++rank) {
    list.push_back(
        {generation_.members[rank], membership_.trainers.at(generation_.members[rank]).ready.address});
    if (from.holders.contains(generation_.members[rank])) start.sources.push_back(static_cast<int>(rank));
  }
  start.members = std::move(list);
  for (auto& [name, trainer] : membership_.trainers) {
    trainer.rank = -1;
    trainer.paused.reset();
  }
  for (const std::string& member : generation_.members) {
    KnownTrainer& trainer = membership_.trainers.at(member);
    trainer.rank = start.rank;
    trainer.progressed = times_.now;
    trainer.beat.waiting_for = -1;
    send(member, start);
    ++start.rank;
  }
}

// Trainers with the state come first, then previous members; the order of ranks stays.
std::vector<std::string> Coordinator::choose_members(const Origin& origin) const {
  struct Candidate {
    std::string name;
    int old_rank = 0;
    bool holds = false;
  };
  std::vector<Candidate> all;
  for (const auto& [name, trainer] : membership_.trainers) {
    const int last = static_cast<int>(generation_.members.size());
    all.push_back({name, trainer.rank < 0 ? last : trainer.rank, origin.holders.contains(name)});
  }
  const auto by_rank = [](const Candidate& a, const Candidate& b) { return a.old_rank < b.old_rank; };
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    return a.holds != b.holds ? a.holds : by_rank(a, b);
  });
  if (all.size() > config_.job.micro_batches) all.resize(config_.job.micro_batches);
  std::stable_sort(all.begin(), all.end(), by_rank);
  std::vector<std::string> members;
  members.reserve(all.size());
  for (Candidate& candidate : all) members.push_back(std::move(candidate.name));
  if (ledger_.restore.others_try()) std::reverse(members.begin(), members.end());
  return members;
}

std::vector<const TrainerReady*> Coordinator::member_reports() const {
  std::vector<const TrainerReady*> all;
  for (const std::string& name : generation_.members)
    if (const KnownTrainer* const trainer = membership_.find(name)) all.push_back(&trainer->ready);
  return all;
}

bool Coordinator::nccl_could_serve() const {
  return nccl_serves(member_reports(), config_.job.exchange, static_cast<int>(config_.job.micro_batches));
}

// A generation that only saves needs no NCCL, which would cost the last tries.
bool Coordinator::without_nccl() const {
  return nccl_could_serve() &&
         (faults_.exchanges.nccl_is_given_up() || (generation_.saves && faults_.exchanges.any()));
}

// Said once: a trainer that is lost later leaves a GPU idle until another one takes its place.
void Coordinator::show_idle_gpus() {
  if (faults_.start_tries.any_without_gpu()) return;  // more trainers would share the GPUs that work
  std::vector<const TrainerReady*> all;
  for (const auto& [name, trainer] : membership_.trainers) all.push_back(&trainer.ready);
  if (const std::string line = idle_gpus(all); !line.empty()) emit(Info{line});
}

void Coordinator::show_members(const Origin& from) {
  const auto ranks = generation_.members.size();
  std::string what = "starts from initial values";
  if (from.restore != nullptr)
    what = str("resumes from step ", from.step, " (checkpoints/", from.restore->checkpoint, ")");
  if (!from.holders.empty())
    what = str("goes on from step ", from.step, " with ", ranks, ranks == 1 ? " trainer" : " trainers",
               from.holders.size() < ranks ? str(", ", ranks - from.holders.size(), " of them new") : "");
  emit(Info{str("generation ", to_text(generation_.id), " ", what)});
  if (from.restore != nullptr) warn_of_other_fingerprint(*from.restore);
  const std::uint64_t parts = config_.job.micro_batches;
  emit(Info{"  rank  host             device  pid      self-check  micro-batches"});
  const std::size_t shown = std::min(ranks, kShownMembers);
  for (std::size_t r = 0; r < shown; ++r) {
    const TrainerReady& ready = membership_.trainers.at(generation_.members[r]).ready;
    std::ostringstream row;
    row << "  " << std::left;
    const std::pair<std::string, int> cells[] = {{str(r), 6},
                                                 {ready.host, 17},
                                                 {ready.device, 8},
                                                 {str(ready.pid), 9},
                                                 {str(std::lround(ready.check_ms), " ms"), 12}};
    for (const auto& [text, width] : cells) {
      row.width(width);
      row << text;
    }
    row << r * parts / ranks << "-" << (r + 1) * parts / ranks - 1;
    emit(Info{row.str()});
  }
  if (shown < ranks) emit(Info{str("  and ", ranks - shown, " more: rekindle status shows them")});
  if (without_nccl())
    emit(Info{"gradients go through host memory: NCCL has failed"});
  else
    for (const std::string& line :
         gpu_lines(member_reports(), config_.job.exchange, static_cast<int>(config_.job.micro_batches)))
      emit(Info{line});
  if (history_.own_generations == 1) show_idle_gpus();
  const std::size_t spares = membership_.trainers.size() - ranks;
  if (spares > history_.spares_reported) {
    history_.spares_reported = spares;
    emit(Warn{str(spares, spares == 1 ? " trainer waits as a spare" : " trainers wait as spares",
                  ": the batch has ", parts,
                  " micro-batches (--micro-batches), and a trainer computes at least one")});
  }
}

}  // namespace rekindle::protocol
