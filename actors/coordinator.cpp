#include "actors/coordinator.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "actors/coordinator_address.hpp"
#include "actors/coordinator_host.hpp"
#include "actors/coordinator_probe.hpp"
#include "actors/early_beats.hpp"
#include "actors/survey.hpp"
#include "actors/system.hpp"
#include "actors/tls_keys.hpp"
#include "base/bytes.hpp"
#include "base/channel.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/wire.hpp"
#include "run/place.hpp"
#include "run/stop_request.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kDeliveryTime = std::chrono::milliseconds(200);

// Whether a holder of the run, possibly on another host, gives signs of life.
class SignsOfLife {
 public:
  SignsOfLife(const run::Layout& layout, bool taking_over) : layout_(layout), taking_over_(taking_over) {}

  bool seen(const run::Holder& holder) {
    const bool writes = has_written();
    // The process exists here. In a take-over, a watch has found the run silent for minutes.
    if (run::visible(holder))
      return writes || (taking_over_ ? run::attended(holder) : !run::supervisor_gone(holder));
    auto place = run::read_place(layout_);
    // A loopback address names this host, not the holder's. That of an earlier coordinator may be seen late.
    if (place && place->term != holder.term) place->certificate.clear();
    return writes || (place && !is_loopback(place->host) && may_be_coordinator(*place, layout_));
  }

 private:
  // Whether the status file has changed since the last call; a live coordinator writes the file about once a
  // second. The last write of a dead holder may become visible late, so early changes do not count.
  bool has_written() {
    const std::string status = read_text(layout_.status(), JsonLimits{}.bytes).value_or("");
    const bool changed = std::exchange(status_, status) != status;
    return changed && boot_time() - began_ > kNamesAreSeenWithin;
  }

  const run::Layout& layout_;
  const bool taking_over_;
  std::string status_;  // as last seen
  const std::chrono::milliseconds began_ = boot_time();
};

void send_line(Channel& supervisor, const std::string& line) {
  if (auto sent = supervisor.send(encode(ToSupervisor(Say{line}))); !sent) log_warning(sent.error().line());
}

void report_wait(const CoordinatorOptions& options, const run::Holder& holder, Channel& supervisor) {
  const std::string line = str("host ", holder.host, " had this run last (term ", holder.term, ", since ",
                               holder.since, ") and has not recorded its end: waiting ",
                               format_duration(options.patience), " for a sign of life before taking over");
  log_info(line);
  send_line(supervisor, line);
}

// `restarted`: this coordinator replaces another one, which had checked the directory. If the check fails
// now, there is only a warning; files that other users may change are still not used.
//
// While a holder on another host may be alive, the supervisor gets the reason for the wait and may end it. A
// coordinator that replaces another one always waits, because the workers hold states that must be saved.
Result<std::uint64_t> take_over(const CoordinatorOptions& options, bool restarted, Channel& supervisor) {
  const run::Layout& layout = options.layout;
  if (restarted && !is_folder(layout.root()))
    return fail(str(layout.root().string(), " is not there"), "is the storage away?");
  REKINDLE_CHECK(make_directories(layout.root(), 0700));
  if (const Status kept = run::check_trusted(layout); !kept) {
    if (!restarted) return forward_error(kept.error());
    log_warning(kept.error().line());
  }
  SignsOfLife signs(layout, options.lost_term > 0);
  return run::claim_term(
      layout, {.patience = options.patience,
               .answers = [&](const run::Holder& holder) { return signs.seen(holder); },
               .waits = [&](const run::Holder& holder) { report_wait(options, holder, supervisor); },
               .given_up = [&] { return !restarted && supervisor.pending(); },
               .lost = options.lost_term});
}

// A node that did not take part in the run may see the newest checkpoint late, and an older checkpoint must
// not be used without a warning. If there is none at all, the run must not begin again at step 0 and shorten
// its records: the checkpoints may have been moved, or removed by a site's cleaning. Before the first
// coordinator is up, a supervisor sends only StopRun.
Status check_newest_is_there(const run::Layout& layout, Channel& supervisor) {
  const auto missing =
      checkpoint::await_newest(layout.root(), layout.newest_checkpoint(), kNamesAreSeenWithin,
                               [&supervisor] { return supervisor.pending(); });
  if (!missing || supervisor.pending()) return {};
  const std::string what = str(missing->directory_name(),
                               ", the newest checkpoint that was saved, is not there"),
                    mend = str("if that is meant, remove ", layout.newest_checkpoint().string());
  REKINDLE_TRY(const bool others, checkpoint::has_saved(layout.root()));
  if (!others)
    return fail(ExitCode::kConfig, str(what, ", and no other: the run would begin again at step 0"),
                str("put the checkpoints back; ", mend));
  log_warning(str(what, "; ", mend));
  send_line(supervisor, str("warning: ", what, "; ", mend));
  return {};
}

// Each start reads all lines of the metrics before the run begins.
void report_large_records(const run::Layout& layout, Channel& supervisor) {
  constexpr std::uint64_t kLargeRecords = std::uint64_t{1} << 30;
  const auto info = look_at(layout.metrics());
  const std::uint64_t bytes = info && *info ? static_cast<std::uint64_t>((*info)->st_size) : 0;
  if (bytes < kLargeRecords) return;
  send_line(supervisor, str("reading ", layout.metrics().string(), " (", format_bytes(bytes),
                            "), which may take minutes: the run begins after that"));
}

// The run goes on without what the records say: steps that are made again may have two lines.
void warn_if_not_read(const run::Recorded& recorded, Channel& supervisor) {
  if (recorded.read) return;
  const std::string line = str("the records of earlier steps cannot be read: ", recorded.read.error().line());
  log_warning(line);
  send_line(supervisor, "warning: " + line);
}

int report_end(Channel& supervisor, int exit_code, const std::string& line, bool may_pass = false) {
  const Ended ended{exit_code, line, true, may_pass};
  if (auto sent = supervisor.send(encode(ToSupervisor(ended))); !sent) {
    log_error(line);
    std::fprintf(stderr, "rekindle: %s\n", printable(line).c_str());  // started by hand
  }
  return exit_code;
}

// The exit code of a coordinator that cannot start. If the coordinator replaces another one (`restarted`),
// the supervisor starts it again later while training continues; otherwise the run ends.
int not_up(Channel& supervisor, bool restarted, const Error& error) {
  if (!restarted) return report_end(supervisor, static_cast<int>(error.code), error.line());
  log_error(error.line());
  send_line(supervisor, str("warning: the coordinator cannot start: ", error.line()));
  return static_cast<int>(ExitCode::kGaveUp);
}

// The supervisor sent its first message, or ended, before the run began.
int stop_before_begin(Channel& supervisor) {
  StopRun stop{static_cast<int>(ExitCode::kSaved), "its supervisor is gone", Time(0)};
  if (const auto text = supervisor.receive(); text && *text) {
    if (const auto word = decode<ToCoordinator>(**text); word && std::holds_alternative<StopRun>(*word))
      stop = std::get<StopRun>(*word);
  }
  return report_end(supervisor, stop.exit_code,
                    str("stopped (", stop.why, ") before the first step: there was nothing to save"));
}

// Until the run has ended. Returns whether this coordinator has to give way to another one before: its
// interface has another address (another lease). A socket that is bound to the old one reaches nobody then,
// and workers would dial it for ever.
bool outlives_its_address(CoordinatorEnd& end, const Interface& listens, const std::string& wanted) {
  constexpr std::chrono::seconds kPeriod{3};
  constexpr int kLooks = 2;  // in a row
  for (int changed = 0; !end.wait_for(kPeriod);) {
    changed = has_another_address(listens, wanted) ? changed + 1 : 0;
    if (changed == kLooks) return true;
  }
  return false;
}

}  // namespace

int run_coordinator(const CoordinatorOptions& options, Fd supervisor_socket) {
  Channel supervisor(std::move(supervisor_socket));
  const bool restarted = options.attempt > 0;
  const auto term = take_over(options, restarted, supervisor);
  if (!term) {
    if (term.error().kind == ErrorKind::kAborted) return stop_before_begin(supervisor);
    // If the run directory belongs to another run by now, another try cannot help.
    return not_up(supervisor, restarted && term.error().code != ExitCode::kConfig, term.error());
  }

  // A request that arrived while this attempt waited for its term stays.
  if (!restarted) run::forget_stop_request(options.layout, options.old_stop);
  // Only a new attempt waits; a replacement continues an attempt whose workers still hold the state.
  const Status newest = restarted ? Status() : check_newest_is_there(options.layout, supervisor);
  report_large_records(options.layout, supervisor);
  run::Recorded recorded;
  EarlyBeats beats(supervisor, *term, boot_time());
  // In place of a dead coordinator, a stop waits for the records: the workers hold states that must be saved.
  const auto stop_is_asked = [&] {
    beats.progress(boot_time());
    return !restarted && supervisor.pending();
  };
  auto known = survey(options.layout, options.job, *term, &recorded, stop_is_asked);
  if (!newest) known = forward_error(newest.error());
  warn_if_not_read(recorded, supervisor);
  if (recorded.given_up) {
    if (const Status ended = run::end_term(options.layout, *term); !ended) log_warning(ended.error().line());
    return stop_before_begin(supervisor);
  }
  if (!known) {
    // The supervisor of a restarted coordinator tries again: no helper may take the run for ended meanwhile.
    const Status ended = restarted ? Status() : run::end_term(options.layout, *term);
    if (!ended) log_warning(ended.error().line());
    return not_up(supervisor, restarted, known.error());
  }
  Status keys = restarted ? ensure_keys(options.layout) : renew_keys(options.layout);
  if (keys) keys = load_keys(options.layout);
  if (!keys) {
    const Status ended = restarted ? Status() : run::end_term(options.layout, *term);
    if (!ended) log_warning(ended.error().line());
    return not_up(supervisor, restarted, keys.error());
  }
  known->expected_trainers = options.expected_trainers;
  known->restarted = restarted;
  RecordWriter writer(options.layout, *term);
  RunRecords records(writer, options.attempt);
  RunStatus status(writer, options.job.steps, records.attempt());
  records.begin(restarted, recorded);
  EventRecords events(writer, records.attempt());
  events.begin(restarted, options.time_limit);
  CoordinatorEnd end;
  SystemConfig config(options.layout);
  // Declared last: its destructor waits for the actor, which uses the above.
  caf::actor_system system(config);
  LocalCoordinator actor = spawn_coordinator(
      system, {options, std::move(*known), writer, records, events, status, supervisor, end});
  const auto listens = publish(options, *term, caf::actor_cast<CoordinatorActor>(actor));
  if (!listens) {
    const int code = not_up(supervisor, restarted, listens.error());
    ::_exit(restarted ? kCannotListen : code);
  }
  if (auto sent = supervisor.send(encode(ToSupervisor(CoordinatorUp{*term, records.attempt()}))); !sent)
    log_warning(sent.error().line());

  // The supervisor's messages go to the actor. If the supervisor dies, this coordinator ends, because no
  // other process would handle signals.
  std::thread listener([&supervisor, &end, actor] {
    for (;;) {
      auto text = supervisor.receive();
      if (!text || !*text) break;
      caf::anon_send(actor, FromSupervisor{**text});
    }
    if (!end.is_set()) caf::anon_send(actor, SupervisorGone{});
  });
  if (outlives_its_address(end, *listens, options.job.interface)) {
    const std::string line = str("this machine no longer has the address ", listens->address,
                                 ", on which the coordinator listens: another one chooses anew");
    log_warning(line);
    if (!supervisor.congested()) send_line(supervisor, "warning: " + line);
    writer.flush();
    ::_exit(kCannotListen);
  }
  // The last orders must reach the workers before this process exits.
  std::this_thread::sleep_for(kDeliveryTime);
  if (end.orphaned()) {
    records.orphan(end.step());
  } else {
    records.end(end.exit_code(), end.line(), end.step());
    events.end(end.exit_code(), end.line(), end.step());
  }
  for (const std::string& line : {records.missing_lines(), writer.take_warning()}) {
    if (line.empty()) continue;
    log_warning(line);
    send_line(supervisor, str("warning: ", line));
  }
  const auto why = end.orphaned() ? run::TermEnd::kOrphaned : run::TermEnd::kOrderly;
  if (auto ended = run::end_term(options.layout, *term, why); !ended) log_warning(ended.error().line());
  report_end(supervisor, end.exit_code(), end.line(), end.may_pass());
  ::shutdown(supervisor.fd(), SHUT_RD);
  listener.join();
  // No orderly teardown: CAF may wait forever for a detached actor that is still referenced, and a process
  // that stays behind would look like a live run.
  ::_exit(end.exit_code());
}

}  // namespace rekindle::actors
