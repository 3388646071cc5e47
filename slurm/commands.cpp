#include "slurm/commands.hpp"

#include <unistd.h>
#include <charconv>
#include <ctime>
#include <sstream>

#include "base/command.hpp"
#include "base/text.hpp"

namespace rekindle::slurm {
namespace {

// A busy controller answers after its MessageTimeout of 10 s; its commands try again by themselves.
constexpr std::chrono::seconds kAnswer{30};

std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of("\n ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

Result<std::string> ask(const std::vector<std::string>& argv) {
  REKINDLE_TRY(CommandOutput output, run_command(argv, kAnswer));
  if (output.ok()) return std::move(output.out);
  std::string said = first_line(output.err);
  if (said.empty()) said = first_line(output.out);
  std::string command;
  for (const std::string& word : argv) command += (command.empty() ? "" : " ") + word;
  if (said.empty())
    said = output.status.by_signal ? str("killed by signal ", output.status.code)
                                   : str("exit code ", output.status.code);
  return fail(str(command, ": ", said));
}

// KEY=VALUE words, of a line or an answer; of equal keys the first.
std::map<std::string, std::string> words_of(const std::string& text) {
  std::map<std::string, std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

// Local time, as Slurm prints it; nullopt for Unknown and the like.
std::optional<SystemTime> parse_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  parts.tm_isdst = -1;
  const std::time_t seconds = std::mktime(&parts);
  if (seconds == -1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

}  // namespace

std::optional<std::uint64_t> leading_number(const std::string& value) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The job's name is in the first line, and may hold anything, line ends too: what counts begins behind the
// next.
constexpr const char* kBehindName = "\n   UserId=";

Result<JobFacts> parse_job(const std::string& text) {
  std::map<std::string, std::string> words;
  const std::size_t behind = text.find(kBehindName);
  std::istringstream in(behind == std::string::npos ? "" : text.substr(behind + 1));
  std::string output;  // It may have spaces.
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) break;  // the next job of an array
    const std::string key = line.substr(begin, line.find('=') - begin);
    for (const char* known : {"JobState", "Requeue", "StartTime", "NodeList", "BatchHost",
                              "PreemptEligibleTime", "NumNodes", "Socks/Node", "Partition"}) {
      if (key == known) words.merge(words_of(line));
    }
    if (key == "StdOut") output = line.substr(line.find('=') + 1);
  }
  const auto restarts = leading_number(words["Restarts"]);
  if (words["JobState"].empty() || !restarts)
    return fail("scontrol show job gave no answer that can be understood");
  auto before_name = words_of(text.substr(0, text.find(" JobName=")));
  const std::string preempt = words["PreemptTime"];
  JobFacts facts;
  facts.array_job = before_name["ArrayJobId"];
  facts.array_task = before_name["ArrayTaskId"];
  facts.tasks = leading_number(words["NumTasks"]).value_or(0);
  facts.tasks_per_node = leading_number(words["NtasksPerN:B:S:C"]).value_or(0);
  facts.state = words["JobState"];
  facts.reason = words["Reason"];
  facts.restarts = *restarts;
  facts.may_requeue = words["Requeue"] != "0";
  facts.preempting = !preempt.empty() && preempt != "None" && preempt != "Unknown" && preempt != "N/A";
  facts.end = parse_time(words["EndTime"]);
  facts.node_list = words["NodeList"];
  facts.batch_host = words["BatchHost"];
  facts.partition = words["Partition"];
  facts.output = output;
  // ExitCode=STATUS:SIGNAL
  const std::string exit_code = words["ExitCode"];
  const std::size_t colon = exit_code.find(':');
  if (colon != std::string::npos)
    facts.batch_signal = static_cast<int>(leading_number(exit_code.substr(colon + 1)).value_or(0));
  return facts;
}

Result<JobFacts> show_job(const std::string& id) {
  REKINDLE_TRY(const std::string text,
               ask({"env", "SLURM_TIME_FORMAT=standard", "scontrol", "show", "job", id}));
  // Of an array, only the task whose own id this is.
  const std::string own = str("JobId=", id, " ");
  const std::size_t begin = text.starts_with(own) ? 0 : text.find("\n\n" + own);
  return parse_job(begin == std::string::npos || begin == 0 ? text : text.substr(begin + 2));
}

std::map<std::string, std::string> parse_config(const std::string& text) {
  std::map<std::string, std::string> config;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(0, line.find(' '));
    const std::string value = line.substr(equals + 3);
    if (!key.empty()) config.emplace(key, value == "(null)" ? "" : value);
  }
  return config;
}

Result<std::map<std::string, std::string>> show_config() {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "show", "config"}));
  auto config = parse_config(text);
  if (config.empty()) return fail("scontrol show config gave no answer that can be understood");
  return config;
}

Result<std::vector<std::string>> expand_nodes(const std::string& node_list) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "show", "hostnames", node_list}));
  std::vector<std::string> nodes;
  std::istringstream in(text);
  for (std::string node; in >> node;) nodes.push_back(node);
  if (nodes.empty()) return fail(str("scontrol show hostnames ", node_list, " gave no names"));
  return nodes;
}

std::map<std::string, std::string> parse_addresses(const std::string& text) {
  std::map<std::string, std::string> addresses;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    auto words = words_of(line);
    if (!words["NodeName"].empty() && !words["NodeAddr"].empty())
      addresses[words["NodeName"]] = words["NodeAddr"];
  }
  return addresses;
}

Result<std::map<std::string, std::string>> node_addresses(const std::string& node_list) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "--oneliner", "show", "node", node_list}));
  return parse_addresses(text);
}

bool parse_down(const std::string& text) { return words_of(text)["State"].starts_with("DOWN"); }

Result<bool> is_down(const std::string& node) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "--oneliner", "show", "node", node}));
  return parse_down(text);
}

Result<std::string> batch_script(const std::string& id) {
  return ask({"scontrol", "write", "batch_script", id, "-"});
}

Status requeue(const std::string& id, bool incomplete) {
  std::vector<std::string> argv{"scontrol", "requeue", id};
  if (incomplete) argv.insert(argv.end() - 1, "Incomplete");
  REKINDLE_TRY(const std::string said, ask(argv));
  return {};
}

Status cancel(const std::string& id) {
  REKINDLE_TRY(const std::string said, ask({"scancel", id}));
  return {};
}

Status kill_step(const std::string& id) {
  REKINDLE_TRY(const std::string said, ask({"scancel", "--signal=KILL", id}));
  return {};
}

namespace {

Result<std::string> ask_for_job(const std::vector<std::string>& argv) {
  REKINDLE_TRY(const std::string said, ask(argv));
  if (!leading_number(said)) return fail("sbatch gave no job id");
  return said.substr(0, said.find_first_of(";\n"));
}

// Whether a list of dependencies ("afterany:5(unfulfilled),afterok:6_1(unfulfilled)") has this job in it.
bool depends_on(const std::string& dependencies, const std::string& id) {
  std::istringstream in(dependencies);
  for (std::string one; std::getline(in, one, ',');) {
    const std::size_t colon = one.find(':');
    if (one.starts_with("after") && colon != std::string::npos &&
        one.substr(colon + 1, one.find('(') - colon - 1) == id)
      return true;
  }
  return false;
}

// The words before a command that keep SLURM_JOB_ID and its like from it.
std::vector<std::string> env_without(const std::string& prefix) {
  std::vector<std::string> words{"env"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    if (name.starts_with(prefix) && name != "SLURM_CONF") words.push_back("--unset=" + name);
  }
  return words;
}

}  // namespace

Result<bool> batch_step_runs(const std::string& id, const std::string& node) {
  // The job's options must not shape this step.
  std::vector<std::string> argv = env_without("SLURM_");
  argv.insert(argv.end(),
              {"srun", "--jobid=" + id, "--nodes=1", "--ntasks=1", "--nodelist=" + node, "--overlap",
               "--no-kill", "--quiet", "--job-name=look", "scontrol", "listpids", id, node});
  REKINDLE_TRY(const CommandOutput output, run_command(argv, kAnswer));
  return parse_batch_step(output.out);  // its exit code is 1 if any of the step daemons is dead
}

Result<bool> parse_batch_step(const std::string& pids) {
  std::istringstream in(pids);
  bool any = false;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string pid, job, step;
    if (!(words >> pid >> job >> step) || !leading_number(pid)) continue;
    if (step == "batch") return true;
    any = true;
  }
  if (!any) return fail("scontrol listpids did not list its own step");
  return false;
}

Result<std::string> submit(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"sbatch", "--parsable"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return ask_for_job(argv);
}

std::string parse_successor(const std::string& text, const std::string& id, const std::string& name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos || line.substr(second + 1) != name) continue;
    if (!depends_on(line.substr(first + 1, second - first - 1), id)) continue;
    std::string found = line.substr(0, first);  // 4_[1]: one task of an array, which waits
    std::erase_if(found, [](char c) { return c == '[' || c == ']'; });
    return found;
  }
  return "";
}

Result<std::string> successor_of(const std::string& id, const std::string& name) {
  // Whatever the user has set for their own eyes.
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
  if (facts.state != "PENDING") return "";
  for (const char* reason : {"PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",
                             "DependencyNeverSatisfied"}) {
    if (facts.reason == reason) return facts.reason;
  }
  // Limits of one job alone: no other job's end changes them.
  return facts.reason.ends_with("PerJobLimit") || facts.reason.ends_with("PerJob") ? facts.reason : "";
}

Result<std::string> submit_successor(const Successor& successor) {
  std::vector<std::string> argv = env_without("SLURM_");
  if (!successor.directory.empty()) argv.push_back("--chdir=" + successor.directory.string());
  argv.insert(argv.end(), {kFollows + ("=" + successor.after), "sbatch", "--parsable",
                           "--dependency=afterany:" + successor.after, "--job-name=" + successor.name});
  if (!successor.task.empty()) argv.push_back("--array=" + successor.task);
  argv.push_back(successor.script);
  REKINDLE_TRY(const std::string job, ask_for_job(argv));
  return successor.task.empty() ? job : job + "_" + successor.task;
}

}  // namespace rekindle::slurm
