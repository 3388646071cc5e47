#include "cluster.hpp"
#include "../needs.hpp"
#include "../read_lines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/command.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "slurm/deadline.hpp"

namespace rekindle::process_test {

namespace {

constexpr std::chrono::minutes kLongest{5};
constexpr const char* kTool = REKINDLE_SOURCE "/tools/slurm-cluster";

// Also works for files in /proc, which have no size.
std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Ends the test if the condition never holds, because later waits would be endless.
void wait_until(const std::function<bool()>& condition, const std::function<std::string()>& what) {
  if (!eventually(condition, kLongest)) throw std::runtime_error(what());
}

}  // namespace

std::string why_no_cluster() {
  if (::getuid() != 0) return "the throw-away Slurm starts its daemons as root";
  for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch"}) {
    const auto found = run_command({"sh", "-c", str("command -v ", program)}, std::chrono::seconds(5));
    if (!found || !found->ok()) return str(program, " is not installed: ./dev slurm up installs it");
  }
  return "";
}

Cluster::Cluster(const std::string& conf) {
  ::setenv("SLURM_EXTRA", conf.c_str(), 1);
  const auto up = run_command({kTool, "up", scratch_ / "slurm"}, std::chrono::minutes(2));
  if (!up || !up->ok())
    why_not_ = "the throw-away Slurm does not start here: " + (up ? up->err : up.error().line());
  ::setenv("SLURM_CONF", (scratch_ / "slurm" / "slurm.conf").c_str(), 1);
}

Cluster::~Cluster() {
  const auto down = run_command({kTool, "down", scratch_ / "slurm"}, std::chrono::minutes(2));
  EXPECT_TRUE(!why_not_.empty() || (down && down->ok()));
}

std::string Cluster::command(const Arguments& argv) const {
  const auto said = run_command(argv, std::chrono::minutes(1));
  if (!said) return "error: " + said.error().line();
  return said->ok() ? said->out : "error: " + said->err;
}

std::string Cluster::submit(const Arguments& options, const fs::path& script,
                            const Arguments& arguments) const {
  std::string id = command(Arguments{"sbatch", "--parsable"} + options + Arguments{script} + arguments);
  while (!id.empty() && id.back() == '\n') id.pop_back();
  EXPECT_EQ(id.find_first_not_of("0123456789"), std::string::npos) << id;
  return id;
}

void Cluster::take(const std::string& nodes) const {
  const std::string said =
      command({"sbatch", "--exclusive", "--nodelist=" + nodes, "--output=/dev/null", "--wrap=sleep 3"});
  EXPECT_TRUE(said.starts_with("Submitted")) << said;
}

std::string Cluster::state(const std::string& job) const {
  const auto facts = slurm::show_job(job);
  return facts ? facts->state : "";
}

std::uint64_t Cluster::restarts(const std::string& job) const {
  const auto facts = slurm::show_job(job);
  return facts ? facts->restarts : 0;
}

std::string Cluster::log() const { return text_of(scratch_ / "slurm" / "log" / "slurmctld.log"); }

std::vector<pid_t> Cluster::tasks_on(const std::string& node) const {
  std::vector<pid_t> pids;
  const std::string conf = str("SLURM_CONF=", (scratch_ / "slurm" / "slurm.conf").string());
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = '\0' + text_of(entry.path() / "environ");
    const auto has = [&](const std::string& word) {
      return environment.find('\0' + word + '\0') != std::string::npos;
    };
    if (has("SLURMD_NODENAME=" + node) && has(conf)) pids.push_back(std::stoi(name));
  }
  return pids;
}

std::vector<pid_t> Cluster::daemons_on(const std::string& node) const {
  std::set<pid_t> pids;
  for (const pid_t task : tasks_on(node)) {
    const auto parent = static_cast<pid_t>(stat_field(task, 4));
    if (text_of(str("/proc/", parent, "/comm")) == "slurmstepd\n") pids.insert(parent);
  }
  const auto slurmd = slurmd_on(node);
  pids.insert(slurmd.begin(), slurmd.end());
  return {pids.begin(), pids.end()};
}

std::vector<pid_t> Cluster::slurmd_on(const std::string& node) const {
  std::vector<pid_t> pids;
  for (const pid_t pid : processes_with("slurmd")) {
    const std::string environment = text_of(str("/proc/", pid, "/environ"));
    if (command_line(pid).find(str("-N", '\0', node, '\0')) != std::string::npos &&
        environment.find((scratch_ / "slurm").string()) != std::string::npos)
      pids.push_back(pid);
  }
  return pids;
}

void Cluster::start_slurmd(const std::string& node, const Arguments& prefix) const {
  command(prefix +
          Arguments{"env", "REKINDLE_SLURM_CLUSTER=" + (scratch_ / "slurm").string(), "slurmd", "-N", node});
}

std::string Cluster::nodes_of(const std::string& job) const {
  const auto facts = slurm::show_job(job);
  const auto nodes = facts ? slurm::expand_nodes(facts->node_list) : Result<std::vector<std::string>>();
  std::string text;
  if (nodes)
    for (const std::string& node : *nodes) text += node + "\n";
  return text;
}

void SlurmRun::SetUp() {
  if (const std::string why = why_no_cluster(); !why.empty()) REKINDLE_SKIP(Needs::kRoot, why);
  cluster_.emplace(conf());
  if (const std::string why = cluster_->why_not(); !why.empty()) REKINDLE_SKIP(Needs::kSetup, why);
}

void SlurmRun::TearDown() {
  if (HasFailure() && cluster_)
    std::cout << output() << text_of(run::Layout(dir()).log("coordinator").path()) << cluster_->log()
              << std::endl;
  cluster_.reset();
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

std::string SlurmRun::output() const { return text_of(output_); }

fs::path SlurmRun::script(const Arguments& more, const std::string& before, const std::string& signal) const {
  fs::path path = scratch_ / "job.sh";
  std::ofstream out(path);
  out << "#!/bin/bash\n#SBATCH --exclusive --requeue --open-mode=append --no-kill " << signal << "\n"
      << "#SBATCH --output=" << output_.string() << "\n"
      << before << "\nexec " << rekindle();
  for (const std::string& argument : mnist_job("slurm", dir()) + more) out << " '" << argument << "'";
  out << "\n";
  return path;
}

fs::path SlurmRun::sleeper() const {
  fs::path path = scratch_ / "sleep.sh";
  std::ofstream(path) << "#!/bin/bash\nexec sleep 600\n";
  return path;
}

void SlurmRun::begin(const Arguments& sbatch_options, const Arguments& more, const std::string& before) {
  job_ = cluster_->submit(sbatch_options, script(more, before));
  wait_for_step(5);
}

void SlurmRun::wait_for_step(std::uint64_t step) {
  wait_until([&] { return reached_step(dir()) >= step; }, [&] { return str("no step ", step); });
}

void SlurmRun::wait_until_printed(const std::string& words) {
  wait_until([&] { return printed(words); }, [&] { return words; });
}

void SlurmRun::wait_for_restart(std::uint64_t restarts) {
  const auto running = [&] {
    return cluster_->restarts(job_) >= restarts && cluster_->state(job_) == "RUNNING";
  };
  wait_until(running, [&] { return cluster_->command({"scontrol", "show", "job", job_}); });
  wait_until([&] { return attempts("slurm-begin").size() > restarts; }, [] { return "no attempt began"; });
  wait_for_steps(3);
}

void SlurmRun::wait_until_over() {
  const auto over = [&] {
    const auto facts = slurm::show_job(job_);
    const bool waits = facts && (facts->state == "COMPLETING" || facts->state == "PENDING");
    return facts && slurm::is_over(*facts) && !waits && processes_with(dir()).empty();
  };
  wait_until(over, [&] { return cluster_->command({"scontrol", "show", "job", job_}); });
}

long SlurmRun::start_now() const {
  long pause = 0;
  const auto waits = [&] {
    const auto facts = slurm::show_job(job_);
    if (!facts || facts->state != "PENDING" || facts->reason != "BeginTime") return false;
    const std::string shown = cluster_->command({"scontrol", "show", "job", job_});
    const std::string key = "StartTime=";
    std::tm parts{};
    ::strptime(shown.c_str() + shown.find("\n   " + key) + 4 + key.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    parts.tm_isdst = -1;
    pause = std::mktime(&parts) - std::time(nullptr);
    return pause > 30;  // the cluster's own pause after a requeue is shorter
  };
  wait_until(waits, [&] { return cluster_->command({"scontrol", "show", "job", job_}); });
  // A start before the old credential has expired (5 s, tools/slurm-cluster) fails.
  cluster_->command({"scontrol", "update", "JobId=" + job_, "StartTime=now+8seconds"});
  return pause;
}

void SlurmRun::expect_over(const std::string& job, const std::string& state, int exit_code) const {
  const auto reached = [&] { return cluster_->state(job) == state; };
  ASSERT_TRUE(eventually(reached, kLongest)) << "job " << job << " is " << cluster_->state(job);
  const std::string shown = cluster_->command({"scontrol", "show", "job", job});
  EXPECT_NE(shown.find(str(" ExitCode=", exit_code, ":0")), std::string::npos) << shown;
}

std::vector<nlohmann::json> SlurmRun::attempts(const std::string& event, const fs::path& run_dir) {
  std::vector<nlohmann::json> all = run::read_lines(run::Layout(run_dir).attempts());
  std::erase_if(all, [&](const nlohmann::json& line) { return line.value("event", "") != event; });
  return all;
}

void SlurmRun::stop_and_compare() {
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  finish_and_compare();
}

Outcome SlurmRun::train(const fs::path& where, int steps) const { return run(mnist_run(where, 2, steps)); }

std::string SlurmRun::expected_digest(int steps) const { return quiet_digest(steps); }

void SlurmRun::finish_and_compare() {
  const int steps = common_steps_after(reached_step(dir()));
  const Outcome finished = train(dir(), steps);
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_EQ(digest_of(dir()), expected_digest(steps));
  EXPECT_TRUE(missing_steps(dir(), static_cast<std::uint64_t>(steps)).empty());
}

}  // namespace rekindle::process_test
