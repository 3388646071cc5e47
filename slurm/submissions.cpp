// Submission of jobs, and the queue: a part of slurm/commands.hpp.
#include "slurm/commands.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <charconv>
#include <ctime>
#include <span>
#include <sstream>

#include "base/command.hpp"
#include "base/lists.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "slurm/ask.hpp"

namespace rekindle::slurm {
namespace {

// Whether a list of dependencies ("afterany:5(unfulfilled),afterok:6_1(unfulfilled)") contains this job.
bool depends_on(const std::string& dependencies, const std::string& id) {
  for (const std::string& entry : comma_separated(dependencies)) {
    const std::size_t colon = entry.find(':');
    if (entry.starts_with("after") && colon != std::string::npos &&
        entry.substr(colon + 1, entry.find('(') - colon - 1) == id)
      return true;
  }
  return false;
}

Result<Fd> in_memory(const std::string& script) {
  Fd text(::memfd_create("job", MFD_CLOEXEC));
  if (!text) return forward_error(errno_error("cannot make memory for", "a job's script"));
  REKINDLE_CHECK(write_all(text.get(), "a job's script", 0, std::as_bytes(std::span(script))));
  return text;
}

// In a job, as in a shell that srun has started on a node, sbatch would hand that job's variables to the new
// job, and srun refuses two kinds of memory there.
std::vector<std::string> sbatch(const char* option) {
  std::vector<std::string> argv;
  if (!environment_variable("SLURM_JOB_ID").empty()) argv = env_without("SLURM_");
  argv.insert(argv.end(), {"sbatch", option});
  return argv;
}

}  // namespace

Result<std::string> submit(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = sbatch("--parsable");
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return ask_for_job(argv);
}

Result<std::string> submit_text(const std::string& script) {
  REKINDLE_TRY(const Fd text, in_memory(script));
  CommandSetting setting;
  setting.in = text.get();
  return ask_for_job(sbatch("--parsable"), setting);
}

Result<std::string> test_text(const std::string& script) {
  REKINDLE_TRY(const Fd text, in_memory(script));
  CommandSetting setting;
  setting.in = text.get();
  REKINDLE_TRY(const CommandOutput output, run_command(sbatch("--test-only"), kAnswer, setting));
  // sbatch writes this answer to stderr, with its own name in front.
  constexpr std::string_view kName = "sbatch: ";
  std::string said = output.err.substr(0, output.err.find_last_not_of('\n') + 1);
  said = said.substr(said.rfind('\n') + 1);
  if (said.starts_with(kName)) said.erase(0, kName.size());
  if (output.ok()) return said;
  return fail(ExitCode::kConfig, "sbatch would refuse the job: " + said);
}

std::string parse_successor(const std::string& text, const std::string& id, const std::string& name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos || line.substr(second + 1) != name) continue;
    if (!depends_on(line.substr(first + 1, second - first - 1), id)) continue;
    std::string found = line.substr(0, first);  // 4_[1]: a pending task of a job array
    std::erase_if(found, [](char c) { return c == '[' || c == ']'; });
    return found;
  }
  return "";
}

Result<std::string> successor_of(const std::string& id, const std::string& name) {
  // The user's own format settings for squeue must not apply.
  std::vector<std::string> argv = env_without("SQUEUE_");
  argv.insert(argv.end(), {"squeue", "--all", "--me", "--noheader", "--format=%i %E %j"});
  REKINDLE_TRY(const std::string text, ask(argv));
  return parse_successor(text, id, name);
}

std::vector<QueuedJob> parse_queue(const std::string& text) {
  std::vector<QueuedJob> jobs;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos || !leading_number(line)) continue;
    jobs.push_back(
        {line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return jobs;
}

Result<std::vector<QueuedJob>> own_jobs() {
  std::vector<std::string> argv = env_without("SQUEUE_");
  argv.insert(argv.end(), {"squeue", "--all", "--me", "--noheader", "--format=%A %T %o"});
  REKINDLE_TRY(const std::string text, ask(argv));
  return parse_queue(text);
}

Result<std::string> limits_of_partition(const std::string& name) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "show", "partition", name}));
  auto words = words_of(text);
  std::string limits;
  for (const char* key : {"MaxTime", "MaxNodes", "TotalNodes"}) {
    if (!words[key].empty()) limits += str(limits.empty() ? "" : ", ", key, "=", words[key]);
  }
  return limits;
}

std::string never_starts(const JobFacts& facts) {
  if (facts.state != "PENDING" || facts.partition.find(',') != std::string::npos)
    return "";  // of several partitions, the reason is that of one
  for (const char* reason : {"PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",
                             "DependencyNeverSatisfied"}) {
    if (facts.reason == reason) return facts.reason;
  }
  // Limits of a single job: the end of another job does not help.
  return facts.reason.ends_with("PerJobLimit") || facts.reason.ends_with("PerJob") ? facts.reason : "";
}

Result<std::string> submit_successor(const Successor& successor) {
  std::vector<std::string> argv = env_without("SLURM_");
  argv.push_back(kFollows + ("=" + successor.after));
  // Slurm's own way if the node does not have the folder: the job goes on in another one.
  if (!successor.directory.empty())
    argv.insert(argv.end(), {"sh", "-c", R"(cd -- "$1" 2>/dev/null; shift; exec "$@")", "sh",
                             successor.directory.string()});
  argv.insert(argv.end(), {"sbatch", "--parsable", "--dependency=afterany:" + successor.after,
                           "--job-name=" + successor.name});
  if (successor.pause.count() > 0) argv.push_back(str("--begin=now+", successor.pause.count(), "minutes"));
  if (!successor.task.empty()) argv.push_back("--array=" + successor.task);
  argv.push_back(successor.script);
  REKINDLE_TRY(const std::string job, ask_for_job(argv));
  return successor.task.empty() ? job : job + "_" + successor.task;
}

}  // namespace rekindle::slurm
