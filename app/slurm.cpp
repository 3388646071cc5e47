#include "app/slurm.hpp"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/signals.hpp"
#include "app/supervisor.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "slurm/cause.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/preflight.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

namespace {

constexpr seconds kMargin{2};          // before Slurm kills
constexpr milliseconds kAnswer{2000};  // of Slurm to why a signal came; then what is known counts
constexpr seconds kLastLook{12};       // the same, when everything is saved
constexpr seconds kTearDown{30};       // until Slurm ends a job that it has requeued
constexpr int kOwnFaults = 3;          // attempts that ended by themselves, and saved nothing new

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::uint64_t committed_step(const run::Layout& layout) {
  const auto committed = checkpoint::list_committed(layout.root());
  return committed.empty() ? 0 : committed.front().step;
}

// ---- the nodes ----

// Options of the job that would shape a step, too: a worker is one task, and has all that the job has of its
// node. Source: srun(1), INPUT ENVIRONMENT VARIABLES.
constexpr const char* kShapes[] = {"SLURM_NTASKS",
                                   "SLURM_NPROCS",
                                   "SLURM_NTASKS_PER_NODE",
                                   "SLURM_NTASKS_PER_CORE",
                                   "SLURM_NTASKS_PER_GPU",
                                   "SLURM_NTASKS_PER_SOCKET",
                                   "SLURM_CPUS_PER_TASK",
                                   "SLURM_GPUS_PER_TASK",
                                   "SLURM_TRES_PER_TASK",
                                   "SLURM_CPU_BIND",
                                   "SLURM_GPU_BIND",
                                   "SLURM_DISTRIBUTION",
                                   "SLURM_HINT",
                                   "SLURM_EXACT",
                                   "SLURM_STEPMGR"};

class JobNodes : public Machines {
 public:
  JobNodes(const SlurmJob& job, const slurm::JobWatch& watch) : job_(job), watch_(watch) {}

  std::size_t count() const override { return job_.nodes.size(); }
  std::string name(std::size_t machine) const override { return job_.nodes[machine]; }
  bool gone(std::size_t machine) const override {
    const auto look = watch_.latest();
    return look && !look->nodes.empty() && !look->nodes.contains(job_.nodes[machine]);
  }

  // The socket is srun's stdin, whose end srun passes on to the worker.
  Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) override {
    std::vector<std::string> argv{"env"};
    for (const char* shape : kShapes) argv.insert(argv.end(), {"-u", shape});
    argv.insert(argv.end(),
                {"srun", "--nodes=1", "--ntasks=1", str("--nodelist=", job_.nodes[machine]), "--overlap",
                 "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--job-name=worker"});
    if (machine < job_.environment.cpus.size())
      argv.push_back(str("--cpus-per-task=", job_.environment.cpus[machine]));
    // A job of one GPU a task would give this task one.
    if (job_.environment.gpus > 0) argv.push_back(str("--gpus-per-node=", job_.environment.gpus));
    argv.push_back(program_path("rekindle-control"));
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    argv.push_back("--supervised-by-stdio");
    if (!job_.addresses.empty()) argv.insert(argv.end(), {"--interface", job_.addresses[machine]});
    REKINDLE_TRY(auto ends, Channel::pair());
    REKINDLE_TRY(auto output, Channel::pair());
    REKINDLE_TRY(Child child, spawn(argv, {}, {}, {ends.second.get(), output.second.get(), output.second.get()}));
    return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first)),
                   std::move(output.first)};
  }

 private:
  const SlurmJob& job_;
  const slurm::JobWatch& watch_;
};

// ---- the job ----

class SlurmSite : public Site {
 public:
  SlurmSite(const SlurmJob& job, const LocalOptions& options)
      : job_(job),
        options_(options),
        layout_(options.run_dir),
        watch_(job.environment),
        nodes_(job, watch_),
        step_at_start_(committed_step(layout_)) {}

  Machines& machines() override { return nodes_; }
  std::uint64_t trainers() const override { return job_.nodes.size() * options_.job.trainers_per_worker; }
  std::vector<std::string> worker_arguments() const override {
    return {"worker", "--run-dir", options_.run_dir};
  }
  int fd() const override { return watch_.fd(); }
  void heard() override {
    watch_.heard();
    const auto look = watch_.latest();
    if (!look) return;
    if (signal_ == 0)
      end_ = look->facts.end;
    else if (look->facts.preempting && look->number >= asked_)
      preempting_ = true;
  }
  void lost_worker() override { watch_.look(); }

  // What srun says of every end that was meant.
  bool is_noise(const std::string& line) const override {
    if (!line.starts_with("srun: ")) return false;
    for (const char* words : {"Exited with exit code 75", "Exited with exit code 130", "got SIGCONT",
                              "forcing job termination", "Job step aborted: Waiting"}) {
      if (line.find(words) != std::string::npos) return true;
    }
    return false;
  }

  void begun(std::uint64_t number) override {
    attempt_ = number;
    record({{"event", "slurm-begin"},
            {"job", job_.environment.id()},
            {"restarts", job_.environment.restarts},
            {"nodes", job_.nodes.size()},
            {"node", job_.environment.node},
            {"step", step_at_start_},
            {"why", why_begun()}});
  }

  void on_signal(int signal) override {
    asked_ = watch_.look();
    const auto now = Clock::now();
    if (signal == SIGTERM && !terminated_) terminated_ = now;
    if (signal_ != 0) return;
    signal_ = signal;
    signalled_ = now;
    signalled_at_ = system_clock::now();
  }

  std::optional<Clock::time_point> limit() override {
    if (signal_ == 0) return std::nullopt;
    std::optional<Clock::time_point> limit;
    const auto at_most = [&](Clock::time_point when) { limit = limit ? std::min(*limit, when) : when; };
    if (options_.job.stop_within_ms > 0) at_most(signalled_ + milliseconds(options_.job.stop_within_ms));
    const auto look = watch_.latest();
    const bool answered = look && look->number >= asked_;
    const bool waited = Clock::now() >= signalled_ + kAnswer;
    if (answered && is_over(look->facts)) {
      at_most(terminated_.value_or(signalled_) + job_.kill_wait - kMargin);
    } else if (answered) {
      if (near(look->facts.end)) at_most(steady(*look->facts.end) - kMargin);
    } else if (waited) {
      if (terminated_) at_most(*terminated_ + job_.kill_wait - kMargin);
      if (near(end_)) at_most(steady(*end_) - kMargin);
    }
    return limit;
  }

  int after(int exit_code) override {
    const slurm::Seen seen = seen_by(exit_code);
    const slurm::Cause cause = slurm::judge(seen);
    const std::uint64_t step = committed_step(layout_);
    nlohmann::json line = {{"event", "slurm-end"}, {"cause", slurm::to_text(cause)}, {"step", step}};
    if (cause == slurm::Cause::kOwnFault && own_faults_at(step) + 1 >= kOwnFaults) {
      line["requeued"] = false;
      record(line);
      std::fprintf(stderr, "rekindle: %d attempts in a row ended by themselves at step %llu: see %s\n",
                   kOwnFaults, static_cast<unsigned long long>(step), layout_.attempts().c_str());
      return static_cast<int>(ExitCode::kGaveUp);
    }
    if (cause == slurm::Cause::kRequeued) say("Slurm has requeued this job");
    if (cause == slurm::Cause::kCancelled)
      say("this job was cancelled: it is not requeued; submit it again to go on");
    const bool wanted = slurm::wants_requeue(cause, signal_);
    if (wanted && job_.on_limit == OnLimit::kExit)
      say("not requeued (--on-limit exit): submit it again to go on");
    bool leaves = cause == slurm::Cause::kRequeued;
    if (wanted && job_.on_limit == OnLimit::kRequeue) {
      leaves = requeue(cause, step);
      line["requeued"] = leaves;
    }
    record(line);
    if (leaves && !terminated_) wait_for_the_end();
    return exit_code;
  }

 private:
  static bool is_over(const slurm::JobFacts& facts) {
    return facts.state != "RUNNING" && facts.state != "SUSPENDED";
  }
  static Clock::time_point steady(slurm::SystemTime when) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(when - system_clock::now());
  }
  static bool near(const std::optional<slurm::SystemTime>& end) {
    return end && *end - system_clock::now() < std::chrono::hours(24);
  }

  void record(nlohmann::json line) {
    line["attempt"] = attempt_;
    line["at"] = utc_now();
    if (auto recorded = run::record_attempt(layout_, line); !recorded) log_warning(recorded.error().line());
  }

  std::string why_begun() const {
    if (job_.environment.restarts == 0) return "submitted";
    const auto text = read_text(layout_.requeue());
    const auto intent = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
    const bool ours = intent.is_object() && intent.value("job", "") == job_.environment.id() &&
                      intent.value("restarts", std::uint64_t{0}) + 1 == job_.environment.restarts;
    if (ours) return "requeued after " + intent.value("cause", "");
    return last_has_ended() ? "requeued by Slurm or an operator"
                            : "requeued by Slurm: the attempt before was killed, or its node failed";
  }

  bool last_has_ended() const {
    std::string last;
    for (const nlohmann::json& line : run::read_lines(layout_.attempts())) {
      const std::string event = line.value("event", "");
      if (event == "slurm-begin" || event == "slurm-end") last = event;
    }
    return last != "slurm-begin";
  }

  slurm::Seen seen_by(int exit_code) {
    slurm::Seen seen;
    seen.exit_code = exit_code;
    seen.signal = signal_;
    seen.restarts = job_.environment.restarts;
    std::error_code code;
    seen.stop_asked = std::filesystem::exists(layout_.stop_request(), code);
    if (signal_ == 0 || exit_code == 0) return seen;
    const auto until = Clock::now() + kLastLook;
    auto look = watch_.latest();
    while ((!look || look->number < asked_) && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(10));
      look = watch_.latest();
    }
    heard();
    if (look && look->number >= asked_) seen.facts = look->facts;
    seen.preempting = preempting_;
    seen.limit = end_;
    seen.signalled_at = signalled_at_;
    return seen;
  }

  // Attempts before this one that ended by themselves and left this very step; those that others ended do not
  // count.
  int own_faults_at(std::uint64_t step) const {
    int count = 0;
    const auto lines = run::read_lines(layout_.attempts());
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      if (line->value("event", "") != "slurm-end") continue;
      if (line->value("step", std::uint64_t{0}) != step) break;
      if (line->value("cause", "") == slurm::to_text(slurm::Cause::kOwnFault)) ++count;
    }
    return count;
  }

  bool requeue(slurm::Cause cause, std::uint64_t step) {
    const slurm::Environment& environment = job_.environment;
    const nlohmann::json intent = {{"job", environment.id()},
                                   {"restarts", environment.restarts},
                                   {"cause", slurm::to_text(cause)},
                                   {"step", step},
                                   {"at", utc_now()}};
    if (auto written = replace_file(layout_.requeue(), intent.dump() + "\n"); !written)
      log_warning(written.error().line());  // a full disk must not cost the next attempt
    const slurm::Requeued done =
        slurm::requeue_once(slurm::queue_of(environment), environment.restarts, job_.requeue_within);
    if (done.accepted) {
      say(str("requeued (", slurm::to_text(cause), "): the next attempt goes on from step ", step));
      return true;
    }
    std::fprintf(stderr,
                 "rekindle: the state of step %llu is saved, but job %s is not requeued: %s: type scontrol "
                 "requeue %s, or submit it again\n",
                 static_cast<unsigned long long>(step), environment.id().c_str(), done.detail.c_str(),
                 environment.id().c_str());
    return false;
  }

  // Ending now, while Slurm takes the job down, would be taken for the job's own end.
  static void wait_for_the_end() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const timespec most{kTearDown.count(), 0};
    ::sigtimedwait(&set, nullptr, &most);
  }

  const SlurmJob& job_;
  const LocalOptions& options_;
  const run::Layout layout_;
  slurm::JobWatch watch_;
  JobNodes nodes_;
  const std::uint64_t step_at_start_;
  std::uint64_t attempt_ = 0, asked_ = 0;
  int signal_ = 0;
  Clock::time_point signalled_;
  slurm::SystemTime signalled_at_{};
  std::optional<Clock::time_point> terminated_;
  std::optional<slurm::SystemTime> end_;  // of the job's time, as known before the signal
  bool preempting_ = false;
};

// Where each node's trainers listen: where Slurm reaches the node.
Result<std::vector<std::string>> listen_addresses(const SlurmJob& job) {
  REKINDLE_TRY(auto names, slurm::node_addresses(job.environment.node_list));
  std::vector<std::string> addresses;
  for (const std::string& node : job.nodes) {
    const std::string name = names[node].empty() ? node : names[node];
    REKINDLE_TRY(const std::string address, resolve(name));
    addresses.push_back(address);
  }
  // Many hosts know their own name as a loopback address, which others do not reach.
  const auto other = std::find_if_not(addresses.begin(), addresses.end(), is_loopback);
  if (other == addresses.end()) return addresses;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!is_loopback(addresses[i])) continue;
    if (job.nodes[i] != job.environment.node)
      return fail(ExitCode::kConfig, str("the address of node ", job.nodes[i], " is ", addresses[i], " here"),
                  "add --interface NAME");
    REKINDLE_TRY(addresses[i], address_towards(*other));
  }
  return addresses;
}

// Bytes a second that become durable in `directory`; 0 if that cannot be found out.
double write_speed(const std::filesystem::path& directory) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::filesystem::path path = temporary_beside(directory / "probe");
  const std::vector<std::byte> bytes(kBytes);
  const auto began = std::chrono::steady_clock::now();
  auto file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const bool written = file && write_all(file->get(), path, 0, bytes) && sync_file(file->get(), path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  return written ? static_cast<double>(kBytes) / seconds.count() : 0;
}

}  // namespace

std::uint64_t signal_lead_of(const LocalOptions& options) {
  return slurm::signal_lead(options.state_bytes, write_speed(options.run_dir));
}

Result<SlurmJob> prepare_slurm(LocalOptions& options, const SlurmOptions& how) {
  SlurmJob job;
  REKINDLE_TRY(job.environment, slurm::read_environment());
  REKINDLE_TRY(job.requeue_within, parse_duration(how.requeue_within));
  job.on_limit = how.on_limit == "exit" ? OnLimit::kExit : OnLimit::kRequeue;
  REKINDLE_TRY(job.nodes, slurm::expand_nodes(job.environment.node_list));
  const slurm::Environment& environment = job.environment;
  if (!options.own_trainers) {
    const bool gpus = options.job.device == "cuda" && environment.gpus > 0;
    options.job.trainers_per_worker =
        std::max<std::uint64_t>(1, gpus ? environment.gpus : environment.tasks_per_node);
  }
  if (options.job.interface.empty() && job.nodes.size() > 1) {
    REKINDLE_TRY(job.addresses, listen_addresses(job));
    const auto here = std::find(job.nodes.begin(), job.nodes.end(), environment.node);
    if (here == job.nodes.end()) return fail(str("this node, ", environment.node, ", is none of the job's"));
    options.job.interface = job.addresses[static_cast<std::size_t>(here - job.nodes.begin())];
  }
  return job;
}

void look_around(SlurmJob& job, LocalOptions& options) {
  slurm::Preflight known;
  if (auto config = slurm::show_config())
    known.config = std::move(*config);
  else
    say(str("warning: ", config.error().line()));
  if (const auto wait = slurm::leading_number(known.config["KillWait"])) job.kill_wait = seconds(*wait);
  // Nodes of a cloud may have to be started first.
  constexpr std::uint64_t kBeyond = 60;
  if (const auto resume = slurm::leading_number(known.config["ResumeTimeout"]);
      resume && !options.own_gather_time)
    options.job.gather_time_ms = std::max(options.job.gather_time_ms, 1000 * (*resume + kBeyond));
  if (auto facts = slurm::show_job(job.environment.id())) known.job = std::move(*facts);
  if (auto script = slurm::batch_script(job.environment.id())) known.script = std::move(*script);
  const auto& cpus = job.environment.cpus;
  if (!cpus.empty()) known.least_cpus = *std::min_element(cpus.begin(), cpus.end());
  known.trainers_per_node = options.job.trainers_per_worker;
  known.threads = options.job.threads;
  known.lead_seconds = signal_lead_of(options);
  known.has_time_limit =
      !known.job || (known.job->end && *known.job->end - system_clock::now() < std::chrono::hours(24 * 300));
  for (const std::string& line : slurm::preflight(known)) say("warning: " + line);
}

int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial) {
  SlurmSite site(job, options);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
