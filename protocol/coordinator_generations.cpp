// From the end of one generation to the start of the next.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

namespace {
constexpr std::size_t kShownMembers = 64;  // when a generation begins; `rekindle status` shows all
}  // namespace

// ---- the end of a generation ----

void Coordinator::abort_members() {
  phase_ = Phase::kParking;
  wait_until_ = now_ + config_.park_deadline;
  for (const std::string& member : generation_.members) {
    auto* const found = there_.find(member);
    if (found != nullptr && found->moving()) send(member, Abort{generation_.id});
  }
}

bool Coordinator::everyone_parked() const {
  if (planted(Bug::kUnparkedSource)) {
    return std::any_of(generation_.members.begin(), generation_.members.end(),
                       [this](const std::string& member) {
                         auto* const found = there_.find(member);
                         return found != nullptr && found->parked;
                       });
  }
  return !generation_.moving.any(generation_.members.size(), [this](std::size_t rank) {
    auto* const found = there_.find(generation_.members[rank]);
    return found != nullptr && found->moving();
  });
}

// Nobody of the generation moves any more: what now?
void Coordinator::regroup() {
  if (phase_ == Phase::kEnded || phase_ == Phase::kQuitting || registering_) return;
  if (ending_) return quit_all();
  regrouping_ = true;
  judge_generation();
  judge_crashes();
  regrouping_ = false;
  if (ending_) return phase_ == Phase::kQuitting || phase_ == Phase::kEnded ? void() : quit_all();
  if (!try_end()) form_if_possible();
}

// Whether a member parked for a reason of its own: its links end with that, and are well.
bool Coordinator::left_by_itself(int rank) const {
  const KnownTrainer* const trainer = member(rank);
  if (trainer == nullptr || !trainer->parked) return false;
  switch (trainer->parked->reason) {
    case ParkReason::kCut:  // its last words may not have reached the others
    case ParkReason::kFinished:
    case ParkReason::kAborted:
    case ParkReason::kExchangeFailed:
    case ParkReason::kDataAltered:
      return false;
    default:
      return true;
  }
}

// What its members said when they parked.
void Coordinator::judge_generation() {
  bool differ = false;
  std::vector<std::string> suspects;
  std::optional<std::string> restore_error, read_error;
  for (const std::string& member : generation_.members) {
    auto* const found = there_.find(member);
    if (found == nullptr || !found->parked) continue;
    const Parked& parked = *found->parked;
    if (parked.reason == ParkReason::kNonFinite)
      return give_up({70, parked.detail, str("lower --lr or look at the data; ", resume_hint())});
    if (parked.reason == ParkReason::kUnsuitable) return give_up({78, parked.detail, ""});
    if (parked.reason == ParkReason::kRestoreFailed) restore_error = parked.detail;
    if (parked.reason == ParkReason::kUnreadable) read_error = parked.detail;
    if (parked.reason == ParkReason::kStatesDiffer) {
      differ = true;
      suspects.clear();
      for (const int rank : parked.differing)
        suspects.push_back(generation_.members[static_cast<std::size_t>(rank)]);
    }
  }
  // Both ends of the link are alive (or blame() does not find them): it is the link.
  if (const auto link = std::exchange(generation_.suspect_link, std::nullopt);
      link && !left_by_itself(link->second)) {
    blame(link->first, link->second);
    hold_until_ = now_ + config_.link_pause;  // tells a blink from a broken link
  }
  // Those that come back while nothing has been formed since say it again: no further try, nor another fault.
  if ((read_error || restore_error) && ledger_.restore.failed_in(generation_.id))
    read_error ? restore_unreadable(*read_error) : restore_failed(*restore_error);
  if (differ && !ledger_.doubt.is_about(generation_.id)) states_differ(suspects);
}

// Since when nobody can tell: every checkpoint whose shards agree may still be committed.
void Coordinator::states_differ(const std::vector<std::string>& suspects) {
  ledger_.doubt.raise(generation_.id, std::numeric_limits<std::uint64_t>::max());
  roll_back(suspects, str("the trainers' states are not alike at step ", step_));
}

// Whoever holds a state after a restore has the whole of what was read, and it was right. What attempts that
// were killed have left is not needed any more then; and it may take the room of the next checkpoint.
void Coordinator::went_on() {
  if (!ledger_.restore.went_on() || ledger_.open.any_older_than(generation_.id)) return;
  emit(Sweep{ledger_.restore.checkpoint(), generation_.id});
}

// Storage that is away for a while, or a device that fails, must not cost checkpoints: it is tried again, and
// what cannot be restored stays where it is.
void Coordinator::restore_unreadable(const std::string& why) {
  const Restorable* const found = ledger_.committed.find(ledger_.restore.checkpoint());
  if (found == nullptr) return;
  const std::string bad = found->checkpoint;
  if (const auto pause = ledger_.restore.try_again()) {
    hold_until_ = now_ + *pause;
    return emit(Warn{str("checkpoint ", bad, " could not be restored (", why, "); it is tried again")});
  }
  if (ledger_.committed.count() == 1)
    return give_up(
        {70, str("checkpoint ", bad, " cannot be restored: ", why),
         str("mend that, then ", launched_by_slurm(config_.job) ? "submit the job" : "run the same command",
             " again: no checkpoint was touched")});
  emit(Warn{str("checkpoint ", bad, " cannot be restored (", why,
                "); it stays where it is, and the one before is used")});
  ledger_.committed.remove(bad);
}

void Coordinator::restore_failed(const std::string& why) {
  const Restorable* const found = ledger_.committed.find(ledger_.restore.checkpoint());
  if (found == nullptr) return;
  const std::string bad = found->checkpoint;
  std::set<std::string> hosts;
  for (const std::string& member : generation_.members) {
    if (auto* const found = there_.find(member)) hosts.insert(found->ready.host);
  }
  if (ledger_.restore.let_others_try(hosts.size()))
    return emit(Warn{str("checkpoint ", bad, " could not be restored (", why, "); other nodes try")});
  emit(Warn{str("checkpoint ", bad, " is damaged (", why, "); it is set aside and the one before is used")});
  emit(SetAside{bad});
  ledger_.committed.remove(bad);
  ledger_.restore.set_aside();
  if (ledger_.committed.count() == 0)
    emit(Warn{"no checkpoint of this run is left that is whole: it begins again with its initial values"});
}

// The replicas are not alike: nothing that anybody holds in memory can be trusted.
void Coordinator::roll_back(const std::vector<std::string>& suspects, const std::string& what) {
  std::string who = suspects.empty() ? "no majority says which is wrong" : "";
  std::vector<std::string> out;
  for (const std::string& name : suspects) {
    auto* const found = there_.find(name);
    if (found == nullptr) continue;
    who += str(who.empty() ? "" : ", ", name, " on host ", found->ready.host, " differs");
    if (faults_.odd_states.differed(name)) out.push_back(name);
  }
  emit(Warn{str(what, " (", who, "); suspect a hardware fault. The run goes back to its newest checkpoint")});
  for (const std::string& name : out) {
    emit(Warn{str("trainer ", name, " has differed ", OddStates::kLimit, " times: it is replaced")});
    emit(OrderKill{there_.trainers.at(name).worker,
                   {name, "its state differed from the others' again and again"}});
    generation_.gone.insert(name);
    there_.trainers.erase(name);
  }
  review_checkpoints();
}

// ---- the next one ----

Coordinator::Origin Coordinator::origin() const {
  Origin origin;
  bool held = false;
  if (!ledger_.doubt.must_restore()) {
    for (const auto& [name, trainer] : there_.trainers) {
      if (!trainer.parked || !trainer.parked->holds) continue;
      const std::uint64_t step = trainer.parked->held_step;
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
  return {};  // initial values, which every trainer makes for itself
}

bool Coordinator::nothing_to_save(const Origin& origin) const {
  return origin.holders.empty() || origin.step == 0 || committed_step() == origin.step;
}

void Coordinator::form_if_possible() {
  if (phase_ == Phase::kEnded || phase_ == Phase::kQuitting || ending_) return;
  const bool may_adopt = config_.restarted && !any_formed_ && now_ < wait_until_;
  if (stop_) {
    const Origin from = origin();
    if (may_adopt && !enough_trainers()) return;  // a generation may be running that has to be saved
    if (nothing_to_save(from)) return end(saved_finish(from.step));
    if (ledger_.open.any_of_step(from.step)) return wait_for_trainers();
    return form();
  }
  // What nobody holds any more may be about to be on disk: going back further would make its steps twice.
  const auto better_commit_under_way = [this] {
    const Origin from = origin();
    return from.holders.empty() && ledger_.open.any_committing_beyond(from.step);
  };
  if (enough_trainers() && now_ >= hold_until_ && !better_commit_under_way()) return form();
  wait_for_trainers();
}

void Coordinator::wait_for_trainers() {
  if (phase_ == Phase::kGathering) return;
  phase_ = Phase::kGathering;
  wait_until_ = now_ + config_.regroup_time;
  if (!std::exchange(still_gathering_, false)) gather_until_ = now_ + config_.gather_time;
  emit(Tell{str("waiting for trainers: ", there_.trainers.size(), " are there")});
}

bool Coordinator::enough_trainers() const {
  const std::size_t there = there_.trainers.size();
  if (there == 0 || there < config_.job.min_trainers) return false;
  // Newcomers may be quicker to find a restarted coordinator than the members of a running generation.
  if (!any_formed_ && config_.restarted && now_ < began_at_ + config_.lost_after) return false;
  if (!any_formed_) {
    const auto expected = static_cast<std::size_t>(std::max(config_.expected_trainers, 1));
    return (there >= expected && there_.own_trainer_there()) || now_ >= wait_until_;
  }
  if (phase_ != Phase::kGathering || !origin().holders.empty()) return true;
  // Nobody is left who holds anything: what is lost by waiting for those that are being restarted is nothing.
  return there >= there_.slots() || now_ >= wait_until_;
}

void Coordinator::form() {
  if (!any_formed_ && !there_.trainers.empty()) {
    if (!choose_bits()) return;
    if (there_.trainers.size() < config_.job.min_trainers) return wait_for_trainers();
  }
  const Origin from = origin();
  if (from.restore != nullptr && other_fingerprint(*from.restore) && config_.job.strict) {
    return end({78, str("checkpoint ", from.restore->checkpoint, " was written by another build or machine"),
                "leave --strict out to go on with bits that may differ"});
  }
  if (!from.holders.empty()) went_on();
  const std::string restore = from.restore != nullptr ? from.restore->checkpoint : "";
  ledger_.restore.begin(restore);
  generation_ = {.id = {config_.term, ++own_generations_},
                 .members = choose_members(from),
                 .sources = from.holders,
                 .began = from.step,
                 .saves = static_cast<bool>(stop_)};
  past_.remember(generation_);
  still_gathering_ = false;
  phase_ = Phase::kRunning;
  any_formed_ = true;
  step_ = from.step;
  faults_.step_crashes.forgive();
  stop_.last_step_at = now_;
  if (log_.rewind(step_)) emit(Rewind{step_});
  show_members(from);

  Start start;
  start.generation = generation_.id;
  start.step = step_;
  start.recorded = log_.newest();
  start.restore = ledger_.restore.checkpoint();
  start.verified = ledger_.restore.verified();
  // Trainers may live shorter than the interval.
  start.unsaved_ms = static_cast<std::uint64_t>(std::max(Time(0), now_ - ledger_.open.began).count());
  start.saved = committed_step() == step_;
  start.evaluate = evaluation_due(config_.job, step_) && !log_.is_evaluated(step_);
  start.stop = static_cast<bool>(stop_);
  if (planted(Bug::kStopLostWithCarrier)) start.stop = false;
  std::vector<Member> list;
  list.reserve(generation_.members.size());
  for (std::size_t rank = 0; rank < generation_.members.size(); ++rank) {
    list.push_back({generation_.members[rank], there_.trainers.at(generation_.members[rank]).ready.address});
    if (from.holders.contains(generation_.members[rank])) start.sources.push_back(static_cast<int>(rank));
  }
  start.members = std::move(list);
  for (auto& [name, trainer] : there_.trainers) {
    trainer.rank = -1;
    trainer.parked.reset();
  }
  for (const std::string& member : generation_.members) {
    KnownTrainer& trainer = there_.trainers.at(member);
    trainer.rank = start.rank;
    trainer.progressed = now_;
    trainer.beat.waiting_for = -1;
    send(member, start);
    ++start.rank;
  }
}

// Holders first, for somebody has to have the state; then whoever was a member before; ranks stay in order.
std::vector<std::string> Coordinator::choose_members(const Origin& origin) const {
  struct Candidate {
    std::string name;
    int old_rank = 0;
    bool holds = false;
  };
  std::vector<Candidate> all;
  for (const auto& [name, trainer] : there_.trainers) {
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

void Coordinator::show_members(const Origin& from) {
  const auto ranks = generation_.members.size();
  std::string what = "starts from initial values";
  if (from.restore != nullptr)
    what = str("resumes from step ", from.step, " (checkpoints/", from.restore->checkpoint, ")");
  if (!from.holders.empty())
    what = str("goes on from step ", from.step, " with ", ranks, ranks == 1 ? " trainer" : " trainers",
               from.holders.size() < ranks ? str(", ", ranks - from.holders.size(), " of them new") : "");
  emit(Tell{str("generation ", to_text(generation_.id), " ", what)});
  if (from.restore != nullptr) warn_of_other_fingerprint(*from.restore);
  const std::uint64_t parts = config_.job.micro_batches;
  emit(Tell{"  rank  host             device  pid      self-check  micro-batches"});
  const std::size_t shown = std::min(ranks, kShownMembers);
  for (std::size_t r = 0; r < shown; ++r) {
    const TrainerReady& ready = there_.trainers.at(generation_.members[r]).ready;
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
    emit(Tell{row.str()});
  }
  if (shown < ranks) emit(Tell{str("  and ", ranks - shown, " more: rekindle status shows them")});
  const std::size_t spares = there_.trainers.size() - ranks;
  if (spares > spares_reported_) {
    spares_reported_ = spares;
    emit(Warn{str(spares, spares == 1 ? " trainer waits as a spare" : " trainers wait as spares",
                  ": the batch has ", parts,
                  " micro-batches (--micro-batches), and a trainer computes at least one")});
  }
}

// ---- stops, ends, joins ----

void Coordinator::stop_members() {
  for (const std::string& member : generation_.members) send(member, Stop{generation_.id});
}

Finish Coordinator::saved_finish(std::uint64_t step) const {
  const int exit_code = stop_.exit_code(75);
  if (!committed_step()) return {exit_code, str("stopped before anything was saved; ", resume_hint()), ""};
  return {exit_code,
          str("stopped at step ", step, " of ", config_.job.steps, ", the state is saved",
              launched_by_slurm(config_.job) ? "" : ": run the same command again to go on"),
          ""};
}

// Ends the run when all members came to the end, or to a stop, and their state is durable. True: it has
// ended, or its checkpoint is on its way.
bool Coordinator::try_end() {
  if (phase_ != Phase::kRunning) return false;
  std::optional<std::uint64_t> held;
  bool finished = true;
  for (const std::string& member : generation_.members) {
    auto* const found = there_.find(member);
    if (found == nullptr || !found->parked || !found->parked->holds) return false;
    const Parked& parked = *found->parked;
    if (parked.reason != ParkReason::kCut && parked.reason != ParkReason::kFinished) return false;
    finished = finished && parked.reason == ParkReason::kFinished;
    held = parked.held_step;
  }
  if (!held || (!finished && !stop_)) return false;
  step_ = *held;
  if (committed_step() == *held) {
    end(finished ? Finish{0, str("finished: ", counted(*held, "step")), ""} : saved_finish(*held));
    return true;
  }
  if (ledger_.open.all.contains({*held, generation_.id})) return true;
  const auto failure = ledger_.failed.given_up(*held);
  if (!failure) return false;  // it is written (again)
  end({70, str("the state of step ", *held, " could not be written: ", *failure), resume_hint()});
  return true;
}

// Newcomers are let in at a cut: everybody stops after one step, together.
void Coordinator::cut_for_newcomers() {
  const bool room = generation_.members.size() < config_.job.micro_batches;
  const bool any = std::any_of(there_.trainers.begin(), there_.trainers.end(),
                               [](const auto& entry) { return entry.second.rank < 0; });
  if (!any || !room || stop_ || ending_ || generation_.pause_asked) return;
  if (!generation_.newcomers_since) generation_.newcomers_since = now_;
  // A step in between, so that the run gets on however often somebody comes; and a checkpoint is never held
  // up.
  if (now_ - *generation_.newcomers_since < config_.join_batch || step_ == generation_.began) return;
  if (!ledger_.open.all.empty() && !planted(Bug::kJoinCutDuringCheckpoint)) return;
  generation_.pause_asked = true;
  for (const std::string& member : generation_.members) send(member, Cut{generation_.id});
}

}  // namespace rekindle::protocol
