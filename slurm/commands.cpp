#include "slurm/commands.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <ctime>
#include <span>
#include <sstream>

#include "base/command.hpp"
#include "base/text.hpp"
#include "slurm/ask.hpp"

namespace rekindle::slurm {
namespace {

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

std::uint64_t gpus_in(const std::string& resources) {
  std::uint64_t count = 0;  // of all types
  std::istringstream all(resources);
  for (std::string each; std::getline(all, each, ',');) {
    if (!each.starts_with("gres/gpu") && !each.starts_with("gres:gpu")) continue;
    const std::string last = each.substr(each.find_last_of("=:/") + 1);  // or a type: "2080ti", "3g.40gb"
    const bool is_number = last.find_first_not_of("0123456789") == std::string::npos;
    count += is_number ? leading_number(last).value_or(1) : 1;
  }
  return count;
}

// "     Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=nvme:1(IDX:0),gpu:a100:2(IDX:0,3)": of each of these nodes.
std::uint64_t parse_fewest_gpus(const std::string& text) {
  std::optional<std::uint64_t> fewest;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || !line.substr(begin).starts_with("Nodes=")) continue;
    const std::string own = "," + words_of(line)["GRES"];
    std::uint64_t count = 0;  // of all types
    for (std::size_t at = 0; (at = own.find(",gpu:", at)) != std::string::npos; ++at)
      count += gpus_in("gres/" + own.substr(at + 1, own.find('(', at) - at - 1));
    fewest = std::min(count, fewest.value_or(count));
  }
  return fewest.value_or(0);
}

// What `scontrol show job` says of this job alone: of a job array it shows every task, and of a heterogeneous
// job every component.
std::string record_of(const std::string& id, const std::string& text) {
  const std::string own = str("JobId=", id, " ");
  const std::size_t before = text.starts_with(own) ? 0 : text.find("\n\n" + own);
  if (before == std::string::npos) return text;
  const std::size_t begin = before == 0 ? 0 : before + 2;
  return text.substr(begin, text.find("\n\nJobId=", begin) - begin);
}

Result<std::uint64_t> fewest_gpus(const std::string& id) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "--details", "show", "job", id}));
  return parse_fewest_gpus(record_of(id, text));
}

// The job's name is in the first line and may contain any text, even line ends. The fields begin after this
// text.
constexpr const char* kBehindName = "\n   UserId=";

Result<JobFacts> parse_job(const std::string& text) {
  std::map<std::string, std::string> words;
  const std::size_t behind = text.find(kBehindName);
  std::istringstream in(behind == std::string::npos ? "" : text.substr(behind + 1));
  std::string output;  // may contain spaces
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) break;  // the next job of an array
    const std::string key = line.substr(begin, line.find('=') - begin);
    for (const char* known :
         {"JobState", "Requeue", "StartTime", "NodeList", "BatchHost", "PreemptEligibleTime", "NumNodes",
          "Socks/Node", "Partition", "TresPerJob", "TresPerNode", "TresPerSocket", "TresPerTask"}) {
      if (key == known) words.merge(words_of(line));
    }
    if (key == "StdOut") output = line.substr(line.find('=') + 1);
  }
  const auto restarts = leading_number(words["Restarts"]);
  if (words["JobState"].empty() || !restarts) return fail("the output of scontrol show job cannot be parsed");
  auto before_name = words_of(text.substr(0, text.find(" JobName=")));
  JobFacts facts;
  facts.array_job = before_name["ArrayJobId"];
  facts.array_task = before_name["ArrayTaskId"];
  facts.tasks = leading_number(words["NumTasks"]).value_or(0);
  facts.tasks_per_node = leading_number(words["NtasksPerN:B:S:C"]).value_or(0);
  facts.gpus = gpus_in(words["TresPerJob"]);
  facts.gpus_per_node = gpus_in(words["TresPerNode"]);
  facts.asks_for_gpus = facts.gpus + facts.gpus_per_node > 0 || gpus_in(words["TresPerSocket"]) > 0 ||
                        gpus_in(words["TresPerTask"]) > 0;
  facts.state = words["JobState"];
  facts.reason = words["Reason"];
  facts.restarts = *restarts;
  facts.may_requeue = words["Requeue"] != "0";
  facts.preempted = parse_time(words["PreemptTime"]);
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
  return parse_job(record_of(id, text));
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
  if (config.empty()) return fail("the output of scontrol show config cannot be parsed");
  return config;
}

Result<std::vector<std::string>> expand_nodes(const std::string& node_list) {
  REKINDLE_TRY(const std::string text, ask({"scontrol", "show", "hostnames", node_list}));
  std::vector<std::string> nodes;
  std::istringstream in(text);
  for (std::string node; in >> node;) nodes.push_back(node);
  if (nodes.empty()) return fail(str("scontrol show hostnames ", node_list, " printed no names"));
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
  REKINDLE_TRY(const std::string output, ask(argv));
  return {};
}

Status start_later(const std::string& id, std::chrono::minutes pause) {
  REKINDLE_TRY(const std::string output,
               ask({"scontrol", "update", "JobId=" + id, str("StartTime=now+", pause.count(), "minutes")}));
  return {};
}

Status cancel(const std::string& id) {
  REKINDLE_TRY(const std::string output, ask({"scancel", id}));
  return {};
}

Status kill_step(const std::string& id) {
  REKINDLE_TRY(const std::string output, ask({"scancel", "--signal=KILL", id}));
  return {};
}

Result<bool> batch_step_runs(const std::string& id, const std::string& node) {
  // The job's own options must not apply to this step.
  std::vector<std::string> argv = env_without("SLURM_");
  argv.insert(argv.end(),
              {"srun", "--jobid=" + id, "--nodes=1", "--ntasks=1", "--nodelist=" + node, "--overlap",
               "--gres=none", "--no-kill", "--quiet", "--job-name=look", "scontrol", "listpids", id, node});
  REKINDLE_TRY(const CommandOutput output, run_command(argv, kAnswer));
  return parse_batch_step(output.out);  // ignores the exit code, which is 1 if any step daemon is dead
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

}  // namespace rekindle::slurm
