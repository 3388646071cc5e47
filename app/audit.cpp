#include "app/audit.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/audit_checks.hpp"
#include "app/container.hpp"
#include "app/local_site.hpp"
#include "app/options.hpp"
#include "app/places.hpp"
#include "app/prepare.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script.hpp"
#include "app/signals.hpp"
#include "app/supervisor.hpp"
#include "app/tools.hpp"
#include "base/clock.hpp"
#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/identity.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::app {

using checkpoint::CheckpointId;
using checkpoint::Manifest;
namespace fs = std::filesystem;

namespace {

// A name for the host and pid namespace: all processes with this name see each other's process ids.
std::string neighbourhood() {
  std::string in = pid_namespace();
  std::erase_if(in, [](char c) { return c < '0' || c > '9'; });
  return str(host_name(), "-", in);
}

// Whether an entry of a run directory belongs to an audit whose process, on this host and in this pid
// namespace, has ended (the name ends with neighbourhood and process id).
bool is_left(const std::string& name) {
  const std::string mine = str(".", neighbourhood(), ".");
  const auto at = name.rfind(mine);
  if (!name.starts_with("audit-") || at == std::string::npos) return false;
  const auto pid = std::strtol(name.c_str() + at + mine.size(), nullptr, 10);
  return pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

// Links the files of a checkpoint into another run directory, under the same names. The links stay when the
// run deletes its checkpoint.
Status link_checkpoint(const run::Layout& run, const CheckpointId& id, const run::Layout& audit) {
  const FilePath from = checkpoint::directory_of(run.root(), id);
  const FilePath to = checkpoint::directory_of(audit.root(), id);
  REKINDLE_CHECK(make_directories(to));
  REKINDLE_TRY(const auto names, names_in(from));
  for (const std::string& name : names) REKINDLE_CHECK(link_or_copy(from / name, to / name));
  return {};
}

// The first step of a run, and the number of steps.
struct StepsMade {
  std::uint64_t first = 0, steps = 0;
};
StepsMade steps_made(const run::Layout& run) {
  StepsMade made;
  run::each_line(run.metrics(), [&made](const nlohmann::json& line) {
    if (!line.contains("loss")) return;
    const auto step = line.value("step", std::uint64_t{0});
    made.first = made.steps == 0 ? step : std::min(made.first, step);
    ++made.steps;
  });
  return made;
}

// This machine, for the run of an audit. A run that cannot use its checkpoint begins with the initial values.
// An audit's run is then stopped, because its result would be useless.
class AuditSite : public LocalSite {
 public:
  AuditSite(const LocalOptions& options, std::optional<CheckpointId> start)
      : LocalSite(options), audit_(options.run_dir), start_(start) {}

  void begun(std::uint64_t) override {
    if (start_ && !checkpoint::is_committed(audit_.root(), *start_).value_or(true)) give_up();
  }
  void trains() override {
    if (!start_ || right_) return;
    const StepsMade made = steps_made(audit_);
    right_ = made.steps > 0 && made.first == start_->step + 1;
    if (made.steps > 0 && !right_) give_up();
  }

  bool lost_its_start() const { return lost_; }

 private:
  void give_up() {
    lost_ = true;
    if (const Status asked = write_stop_request(audit_); !asked) log_warning(asked.error().line());
  }

  const run::Layout audit_;
  const std::optional<CheckpointId> start_;
  bool right_ = false, lost_ = false;
};

class Audit {
 public:
  explicit Audit(const AuditOptions& options)
      : options_(options),
        run_(options.run_dir),
        audit_(options.run_dir /
               str("audit-", options.from, "-", options.to, ".", neighbourhood(), ".", ::getpid())) {}
  ~Audit() {
    if (made_) std::ignore = remove_tree(audit_.root());
  }
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  Result<int> run() {
    std::optional<EndOnSignal> interruptible;
    const auto remove = [root = audit_.root()](int signal) {
      std::ignore = remove_tree(root);
      return usual_exit_code(signal);
    };
    interruptible.emplace(remove);
    REKINDLE_CHECK(must_be_run(run_));
    REKINDLE_TRY(const Manifest expected, verified_manifest(run_, options_.to));
    REKINDLE_TRY(const LocalOptions local, prepare_run(expected));
    interruptible.reset();  // run_at() handles signals: a signal stops the run
    AuditSite site(local, start_);
    const int exit_code = run_at(site, local, {});
    if (site.lost_its_start()) return start_is_lost();
    if (exit_code != 0) {
      std::fprintf(stderr, "rekindle: the audit did not finish: nothing was compared or kept\n");
      // Exit code 70 means only that the bits differ.
      return exit_code == static_cast<int>(ExitCode::kGaveUp) ? static_cast<int>(ExitCode::kSaved)
                                                              : exit_code;
    }
    interruptible.emplace(remove);
    REKINDLE_TRY(const Manifest made, verified_manifest(audit_, options_.to));
    REKINDLE_CHECK(check_made());
    const std::string what = str("steps ", options_.from, " to ", options_.to, " repeated by ",
                                 options_.workers, options_.workers == 1 ? " trainer" : " trainers");
    if (made.digest == expected.digest) {
      std::printf("%s: bit-identical, digest %s\n", what.c_str(), made.digest.c_str());
      return 0;
    }
    return report(Error{
        ExitCode::kGaveUp,
        str(what, " DIFFER, first in ", first_difference(expected.contents, made.contents),
            ": the digest is ", made.digest, ", not ", expected.digest, other_circumstances(expected, made)),
        {}});
  }

 private:
  Result<LocalOptions> prepare_run(const Manifest& expected) {
    if (options_.from >= options_.to)
      return fail(ExitCode::kUsage, str("--from ", options_.from, " is not before --to ", options_.to));
    LocalOptions local;
    REKINDLE_TRY(local.job, read_job(run_.config()));
    REKINDLE_CHECK(check_no_srun(container_of(local.job), "audit"));
    REKINDLE_CHECK(use_copy_of_script(local.job, run_));
    if (!options_.data.empty() && is_script(local.job))
      return fail(ExitCode::kUsage, "--data with a run of a script",
                  "the script itself decides that: leave it out");
    if (!options_.data.empty()) local.job.task.data = options_.data;
    if (options_.from > 0) {
      REKINDLE_TRY(const Manifest from, verified_manifest(run_, options_.from));
      REKINDLE_CHECK(check_same_run(from, expected));
      start_ = from.id;
    }
    REKINDLE_TRY(const nlohmann::json identity, identity_of(expected));
    protocol::use_changes_of(local.job, identity);
    REKINDLE_CHECK(check_identity(local.job, identity, "run.toml"));
    REKINDLE_CHECK(remove_what_is_left());
    made_ = true;
    REKINDLE_CHECK(make_directories(audit_.root()));
    start_logging("rekindle", audit_.log("supervisor"), LogLevel::kInfo);
    if (start_) {
      REKINDLE_CHECK(link_start());
    } else if (!local.job.init.empty()) {
      REKINDLE_CHECK(link_or_copy(run_.initial_state(), audit_.initial_state()));
    }
    local.run_dir = audit_.root().path();
    local.workers = options_.workers;
    // Of a script: --no-decay and --lr-scale name its parameters.
    local.script_model = model_of(expected.contents.tensors);
    alter(local.job);
    const std::string cpu = local.job.cpu_capability, bf16 = local.job.bf16_isa;
    const std::vector<std::string> environment = local.job.environment;
    REKINDLE_CHECK(prepare(local));
    REKINDLE_CHECK(check_identity(local.job, identity, "the present data"));
    local.job.cpu_capability = cpu;
    local.job.bf16_isa = bf16;
    local.job.environment = environment;
    local.job.test_samples = 0;  // no evaluation, because evaluation does not change the state
    return local;
  }

  // The run may delete the checkpoint at any moment, its manifest first.
  Status link_start() const {
    Status linked = link_checkpoint(run_, *start_, audit_);
    const FilePath directory = checkpoint::directory_of(audit_.root(), *start_);
    const auto manifest = checkpoint::read_manifest(directory);
    if (linked && manifest && checkpoint::check_files(directory, *manifest)) return {};
    REKINDLE_TRY(const bool still_there, checkpoint::is_committed(run_.root(), *start_));
    if (!linked && still_there) return linked;
    return start_is_lost();
  }

  tl::unexpected<Error> start_is_lost() const {
    return fail(
        ExitCode::kConfig,
        str("the checkpoint of step ", options_.from, " could not be used: nothing was compared"),
        "a running run deletes old checkpoints: audit between newer checkpoints, or use a larger --keep");
  }

  // Removes the directories of audits that were killed.
  Status remove_what_is_left() const {
    REKINDLE_TRY(const auto names, names_in(run_.root()));
    for (const std::string& name : names) {
      if (is_left(name)) std::ignore = remove_tree(run_.root() / name);
    }
    return {};
  }

  // Checks that the audit made every step between the two checkpoints, and no other step.
  Status check_made() const {
    const StepsMade made = steps_made(audit_);
    if (made.first == options_.from + 1 && made.steps == options_.to - options_.from) return {};
    return fail(ExitCode::kConfig,
                str("the audit made ", made.steps, " steps beginning with step ", made.first,
                    ", not the steps after step ", options_.from),
                "nothing was compared");
  }

  // Changes the settings that have no effect on the bits.
  void alter(protocol::Job& job) const {
    job.steps = options_.to;
    job.epochs = 0;
    job.trainers_per_worker = job.min_trainers = 1;
    job.checkpoint_every = job.checkpoint_interval_ms = 0;
    job.keep = 2;
    job.keep_best = false;
    job.interface.clear();
    job.port_range.clear();
  }

  const AuditOptions options_;
  const run::Layout run_, audit_;
  std::optional<CheckpointId> start_;  // nullopt: the initial values
  bool made_ = false;
};

}  // namespace

int run_audit(const AuditOptions& options) {
  hold_signals();
  Audit audit(options);
  auto exit_code = audit.run();
  if (exit_code) return *exit_code;
  if (exit_code.error().code == ExitCode::kGaveUp) exit_code.error().code = ExitCode::kSaved;
  return report(exit_code.error());
}

}  // namespace rekindle::app
