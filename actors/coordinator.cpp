#include "actors/coordinator.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "actors/coordinator_finder.hpp"
#include "actors/coordinator_host.hpp"
#include "actors/system.hpp"
#include "actors/tls_keys.hpp"
#include "base/channel.hpp"
#include "base/clock.hpp"
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
#include "run/terms.hpp"
#include "run/trust.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kLastWords = std::chrono::milliseconds(200);

// Whether a holder that may be on another host gives signs of life.
class SignsOfLife {
 public:
  explicit SignsOfLife(const run::Layout& layout) : layout_(layout) {}

  bool seen(const run::Holder& holder) {
    if (run::visible(holder)) return true;  // its process is alive: it is there
    const bool writes = has_written();
    const auto place = run::read_place(layout_);
    // A loopback address names this host, not the holder's.
    return writes || (place && !is_loopback(place->host) && reachable(place->host, place->port));
  }

 private:
  // Its status, since the last look: it does so every second or so. What the dead wrote last may be seen
  // late.
  bool has_written() {
    const std::string status = read_text(layout_.status(), JsonLimits{}.bytes).value_or("");
    const bool changed = std::exchange(status_, status) != status;
    return changed && boot_time() - began_ > kNamesAreSeenWithin;
  }

  const run::Layout& layout_;
  std::string status_;  // as last seen
  const std::chrono::milliseconds began_ = boot_time();
};

// `restarted`: in place of another, which had found the directory as it should be. What others may read by
// now is only warned of; what others may change is not used.
Result<std::uint64_t> take_over(const CoordinatorOptions& options, bool restarted) {
  const run::Layout& layout = options.layout;
  if (restarted && !is_folder(layout.root()))
    return fail(str(layout.root().string(), " is not there"), "is the storage away?");
  REKINDLE_CHECK(make_directories(layout.root(), 0700));
  if (const Status kept = run::check_trusted(layout); !kept) {
    if (!restarted) return forward_error(kept.error());
    log_warning(kept.error().line());
  }
  SignsOfLife signs(layout);
  return run::claim_term(
      layout, options.patience, [&](const run::Holder& holder) { return signs.seen(holder); },
      options.lost_term);
}

// A node that the run was not on may see its newest checkpoint late: an older one must not be used in
// silence. The only words that a supervisor has before the first coordinator is up are to stop.
void await_newest(const run::Layout& layout, Channel& supervisor) {
  const auto missing =
      checkpoint::await_newest(layout.root(), layout.newest_checkpoint(), kNamesAreSeenWithin,
                               [&supervisor] { return supervisor.pending(); });
  if (!missing || supervisor.pending()) return;
  const std::string line = str(missing->directory_name(),
                               ", the newest checkpoint that was saved, is not there; if that is meant, ",
                               "remove ", layout.newest_checkpoint().string());
  log_warning(line);
  if (auto sent = supervisor.send(encode(ToSupervisor(Say{str("warning: ", line)}))); !sent)
    log_warning(sent.error().line());
}

int report_end(Channel& supervisor, int exit_code, const std::string& line) {
  if (auto sent = supervisor.send(encode(ToSupervisor(Ended{exit_code, line}))); !sent) {
    log_error(line);
    std::fprintf(stderr, "rekindle: %s\n", printable(line).c_str());  // started by hand
  }
  return exit_code;
}

// The exit code of one that cannot come up. Was it started in place of another (`restarted`), the supervisor
// starts it again later, while training goes on; else the run ends.
int not_up(Channel& supervisor, bool restarted, const Error& error) {
  if (!restarted) return report_end(supervisor, static_cast<int>(error.code), error.line());
  log_error(error.line());
  const std::string line = str("warning: the coordinator cannot come up: ", error.line());
  if (auto sent = supervisor.send(encode(ToSupervisor(Say{line}))); !sent) log_error(sent.error().line());
  return static_cast<int>(ExitCode::kGaveUp);
}

Result<std::uint16_t> listen(const CoordinatorActor& actor, const std::string& address, PortRange ports) {
  for (int port = ports.first;; ++port) {
    const auto listening =
        caf::openssl::publish(actor, static_cast<std::uint16_t>(port), address.c_str(), ports.first != 0);
    if (listening) return *listening;
    if (port >= ports.last)
      return fail(ExitCode::kConfig,
                  str("the coordinator cannot listen on ", address, ": ", caf::to_string(listening.error())),
                  ports.last == 0 ? "" : "is a port of --port-range free?");
  }
}

// Workers find the coordinator in coordinator.json.
Status publish(const CoordinatorOptions& options, std::uint64_t term, const CoordinatorActor& actor) {
  REKINDLE_TRY(const PortRange ports, parse_port_range(options.job.port_range));
  REKINDLE_TRY(const std::string address, choose_address(interfaces(), options.job.interface));
  REKINDLE_TRY(const std::uint16_t port, listen(actor, address, ports));
  const nlohmann::json where = {{"term", term}, {"host", address}, {"port", port}};
  REKINDLE_CHECK(replace_file(options.layout.coordinator(), where.dump() + "\n"));
  log_info(str("term ", term, " on ", address, ":", port));
  return {};
}

}  // namespace

int run_coordinator(const CoordinatorOptions& options, Fd supervisor_socket) {
  Channel supervisor(std::move(supervisor_socket));
  const bool restarted = options.attempt > 0;
  const auto term = take_over(options, restarted);
  if (!term) {
    // Is the run directory another run's by now, no later try will help.
    return not_up(supervisor, restarted && term.error().code != ExitCode::kConfig, term.error());
  }

  if (!restarted) {
    // A stop that was asked of an older attempt; one that was asked while this one waited for its term
    // counts.
    if (auto request = read_text(options.layout.stop_request(), run::kMostOfANote);
        request && *request == options.old_stop)
      std::ignore = remove_file(options.layout.stop_request());
  }
  // One that replaces another is where that one was.
  if (!restarted) await_newest(options.layout, supervisor);
  run::Recorded recorded;
  auto known = survey(options.layout, options.job, *term, &recorded);
  if (!known) {
    // The supervisor of a restarted one tries again, and no helper may take the run for ended meanwhile.
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
  RunRecords records(options.layout, options.job, *term, options.attempt);
  records.begin(restarted, recorded);
  CoordinatorEnd end;
  SystemConfig config(options.layout);
  caf::actor_system system(config);  // last: its end waits for the actor, which uses all of the above
  LocalCoordinator actor = spawn_coordinator(system, {options, std::move(*known), records, supervisor, end});
  if (auto published = publish(options, *term, caf::actor_cast<CoordinatorActor>(actor)); !published) {
    const int code = not_up(supervisor, restarted, published.error());
    ::_exit(restarted ? kCannotListen : code);
  }
  if (auto sent = supervisor.send(encode(ToSupervisor(CoordinatorUp{*term, records.attempt()}))); !sent)
    log_warning(sent.error().line());

  // The supervisor's words go to the actor. Its end ends this coordinator, for nobody else would answer
  // signals.
  std::thread listener([&supervisor, &end, actor] {
    for (;;) {
      auto text = supervisor.receive();
      if (!text || !*text) break;
      caf::anon_send(actor, SupervisorSaid{**text});
    }
    if (!end.is_set()) caf::anon_send(actor, SupervisorGone{});
  });
  end.wait();
  // The last orders have to reach the workers.
  std::this_thread::sleep_for(kLastWords);
  if (end.orphaned())
    records.orphan(end.step());
  else
    records.end(end.exit_code(), end.line(), end.step());
  if (const std::string missing = records.missing_lines(); !missing.empty()) {
    log_warning(missing);
    if (auto sent = supervisor.send(encode(ToSupervisor(Say{str("warning: ", missing)}))); !sent)
      log_warning(sent.error().line());
  }
  const auto why = end.orphaned() ? run::TermEnd::kOrphaned : run::TermEnd::kOrderly;
  if (auto ended = run::end_term(options.layout, *term, why); !ended) log_warning(ended.error().line());
  report_end(supervisor, end.exit_code(), end.line());
  ::shutdown(supervisor.fd(), SHUT_RD);
  listener.join();
  // No orderly teardown: CAF may wait for ever for a detached actor that somebody still refers to, and a
  // process that stays behind would look like a live run.
  ::_exit(end.exit_code());
}

}  // namespace rekindle::actors
