#include "app/slurm_log.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"

namespace rekindle::app {
namespace {

constexpr const char* kSubmitted = "submitted";

std::string event_of(const nlohmann::json& line) { return line.value("event", ""); }

}  // namespace

SlurmLog::SlurmLog(const run::Layout& layout, const slurm::Environment& environment)
    : layout_(layout), environment_(environment) {
  const auto intent = run::last_intent(layout_);
  if (intent.value("successor", "") == environment_.id())
    follows_ = intent.value("job", "");
  else if (environment_.restarts == 0)
    follows_ = environment_.follows;  // the attempt before could not write it down
}

bool SlurmLog::held_by_another() const {
  const auto holder = run::newest_term(layout_);
  if (!holder || !*holder || run::looks_gone(**holder)) return false;
  return (*holder)->slurm_job != environment_.job || (*holder)->slurm_restarts != environment_.restarts;
}

bool SlurmLog::held_by_another_node() const {
  const auto holder = run::newest_term(layout_);
  return holder && *holder && !(*holder)->ended && (*holder)->slurm_node != environment_.node;
}

bool SlurmLog::stop_was_missed(const std::string& request) const {
  if (!is_later_attempt() || request.empty()) return false;
  constexpr JsonField kFields[] = {{"asked", JsonType::kText}};
  const auto parsed = parse_object(request, kFields, layout_.stop_request().string());
  const std::string asked = parsed ? parsed->value("asked", "") : "";
  nlohmann::json begin = nlohmann::json::object();
  bool acted = false;  // an attempt that could not begin may have ended after the one that stopped
  run::each_line(layout_.attempts(), [&](const nlohmann::json& line) {
    if (event_of(line) == "slurm-begin") begin = line, acted = false;
    if (event_of(line) == "slurm-end" && line.value("cause", "") == slurm::to_text(slurm::Cause::kStopped) &&
        !line.value("requeued", false))
      acted = true;
  });
  const std::string job = begin.value("job", "");  // none: no attempt of a job has begun
  const bool of_this = !job.empty() && (job == environment_.id() || job == follows_);
  return of_this && asked >= begin.value("at", "") && !acted;
}

std::uint64_t SlurmLog::step_at_begin(std::uint64_t otherwise) const {
  std::uint64_t step = otherwise;
  run::each_line(layout_.attempts(), [&](const nlohmann::json& line) {
    if (event_of(line) == "slurm-begin" && line.value("job", "") == environment_.id() &&
        line.value("restarts", std::uint64_t{0}) == environment_.restarts)
      step = line.value("step", std::uint64_t{0});
  });
  return step;
}

std::uint64_t SlurmLog::futile_attempts(std::uint64_t step) const {
  std::uint64_t number = 0;
  run::each_line(layout_.attempts(), [&](const nlohmann::json& line) {
    const std::string job = line.value("job", "");
    if (event_of(line) != "slurm-futile" || (job != environment_.id() && job != follows_)) return;
    number = line.value("step", std::uint64_t{0}) == step ? line.value("number", std::uint64_t{0}) : 0;
  });
  return number;
}

void SlurmLog::begin(std::size_t nodes, std::uint64_t step) {
  record({{"event", "slurm-begin"},
          {"job", environment_.id()},
          {"restarts", environment_.restarts},
          {"nodes", nodes},
          {"node", environment_.node},
          {"step", step},
          {"why", why_begun()}});
}

void SlurmLog::begin_as_successor() {
  record({{"event", "slurm-successor"}, {"job", environment_.id()}, {"node", environment_.node}});
}

void SlurmLog::end(slurm::Cause cause, std::uint64_t step, const nlohmann::json& more) {
  if (held_by_another()) return;
  nlohmann::json line = {{"event", "slurm-end"}, {"cause", slurm::to_text(cause)}, {"step", step}};
  line.update(more);
  record(line);
  const bool requeued = line.value("requeued", cause == slurm::Cause::kRequeued);
  if (!requeued && !line.contains("requeued")) return;  // the coordinator has told this end
  const Status told =
      run::record_event(layout_, requeued ? "requeued" : "gave_up",
                        {{"attempt", attempt_}, {"step", step}, {requeued ? "cause" : "why", line["cause"]}});
  if (!told) log_warning(told.error().line());
}

bool SlurmLog::count_futile(std::uint64_t step, std::uint64_t number) {
  return record({{"event", "slurm-futile"}, {"job", environment_.id()}, {"step", step}, {"number", number}});
}

void SlurmLog::note_request(slurm::Cause cause, std::uint64_t step, const std::string& successor) const {
  nlohmann::json intent = {{"job", environment_.id()},
                           {"restarts", environment_.restarts},
                           {"cause", slurm::to_text(cause)},
                           {"step", step},
                           {"at", utc_now()}};
  if (!successor.empty()) intent["successor"] = successor;
  if (auto written = replace_file(layout_.requeue(), intent.dump() + "\n"); !written)
    log_warning(written.error().line());  // a full disk must not cost the next attempt
}

std::string SlurmLog::why_begun() const {
  const nlohmann::json intent = run::last_intent(layout_);
  if (environment_.restarts == 0)
    return follows_.empty() ? kSubmitted : "resubmitted after " + intent.value("cause", "");
  const bool ours = intent.value("job", "") == environment_.id() &&
                    intent.value("restarts", std::uint64_t{0}) + 1 == environment_.restarts;
  if (ours) return "requeued after " + intent.value("cause", "");
  return last_has_ended() ? "requeued by Slurm or an operator"
                          : "requeued by Slurm: the attempt before was killed, or its node failed";
}

bool SlurmLog::last_has_ended() const {
  std::string last;
  run::each_line(layout_.attempts(), [&](const nlohmann::json& line) {
    const std::string event = event_of(line);
    if (event == "slurm-begin" || event == "slurm-end") last = event;
  });
  return last != "slurm-begin";
}

bool SlurmLog::record(nlohmann::json line) {
  line["attempt"] = attempt_;
  line["at"] = utc_now();
  const Status recorded = run::record_attempt(layout_, line);
  if (!recorded) log_warning(recorded.error().line());
  return recorded.has_value();
}

}  // namespace rekindle::app
