#include "slurm/preflight.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/lists.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "slurm/script.hpp"

namespace rekindle::slurm {
namespace {

// The words of the #SBATCH lines, up to the script's first command.
std::vector<std::string> directives(const std::string& script) {
  std::vector<std::string> words;
  std::istringstream in(script);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#")) {
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      break;
    }
    if (!line.starts_with("#SBATCH")) continue;
    std::istringstream rest(line.substr(7));
    for (std::string word; rest >> word && word != "#";) {
      std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
      words.push_back(word);
    }
  }
  return words;
}

// Exit codes and ranges: "1-3,75".
bool lists(const std::string& codes, std::uint64_t code) {
  for (const std::string& part : comma_separated(codes)) {
    const auto first = leading_number(part);
    const std::size_t dash = part.find('-');
    const auto last = dash == std::string::npos ? first : leading_number(part.substr(dash + 1));
    if (first && last && *first <= code && code <= *last) return true;
  }
  return false;
}

void check_exit_codes(const Preflight& known, std::vector<std::string>& lines) {
  for (const char* key : {"RequeueExit", "RequeueExitHold"}) {
    const auto found = known.config.find(key);
    if (found == known.config.end()) continue;
    for (const ExitCode code : {ExitCode::kGaveUp, ExitCode::kSaved, ExitCode::kConfig, ExitCode::kUsage}) {
      const auto number = static_cast<std::uint64_t>(code);
      if (lists(found->second, number))
        lines.push_back(str("slurm.conf has ", key, "=", found->second, ", which lists ", number,
                            ": Slurm requeues every job that ends with this exit code; see docs/slurm.md"));
    }
  }
}

// Source: bash(1), SIGNALS. In a test, SIGUSR1 killed a bash that was waiting for a foreground program.
void check_parent(const Preflight& known, std::vector<std::string>& lines) {
  if (known.parent.empty()) return;
  lines.push_back(
      str("the batch script did not exec rekindle. Slurm sends SIGUSR1 to the process ", known.parent,
          ". A shell dies of SIGUSR1, and the job ends before its state is saved. Write \"exec rekindle "
          "slurm ...\"; instead of \"| tee FILE\" write \"> >(tee FILE)\""));
}

void check_script(const Preflight& known, std::vector<std::string>& lines) {
  if (!known.script) return;
  const ScriptOptions options = parse_script(*known.script);
  if (options.open_mode != "append")
    lines.push_back("the batch script has no --open-mode=append: a requeue empties the job's output file");
  if (!known.has_time_limit) return;
  if (!options.signal) {
    lines.push_back(str(
        "the batch script has no --signal. Without --signal, Slurm sends no signal before the time limit, "
        "and the run has only KillWait to save its state. Add #SBATCH --signal=B:USR1@",
        known.lead_seconds, " (ignore this if --signal was on sbatch's command line)"));
    return;
  }
  const SignalLead lead = parse_signal(*options.signal);
  if (!lead.wrong.empty())
    lines.push_back(
        str("--signal=", *options.signal, ": ", lead.wrong, "; use --signal=B:USR1@", known.lead_seconds));
  else if (lead.seconds < known.lead_seconds)
    lines.push_back(str("--signal=", *options.signal,
                        " is too late for the size of the state: use --signal=B:USR1@", known.lead_seconds,
                        " or more"));
  else if (known.seconds_left && lead.seconds >= *known.seconds_left)
    lines.push_back(str("--signal=", *options.signal, " arrives at once, because the job has only ",
                        *known.seconds_left,
                        " s: the run will stop before its first step; request a longer --time"));
}

}  // namespace

ScriptOptions parse_script(const std::string& script) {
  const std::vector<std::string> words = directives(script);
  ScriptOptions options;
  options.signal = option_value(words, "--signal");
  options.open_mode = option_value(words, "--open-mode");
  for (const std::string& word : words) {
    if (word == "--no-requeue") options.no_requeue = true;
    if (word == "--requeue") options.no_requeue = false;
  }
  return options;
}

SignalLead parse_signal(const std::string& value) {
  constexpr std::uint64_t kDefaultLead = 60;
  const std::size_t colon = value.find(':');
  const std::string who = colon == std::string::npos ? "" : value.substr(0, colon);
  const std::string rest = colon == std::string::npos ? value : value.substr(colon + 1);
  const std::string name = rest.substr(0, rest.find('@'));
  if (who.find('B') == std::string::npos)
    return {0, "this signal goes to the job's steps, not to the batch script"};
  if (name != "USR1" && name != "SIGUSR1" && name != "10")
    return {0, str(name, " is not the signal that asks for a requeue")};
  const std::size_t at = rest.find('@');
  return {at == std::string::npos ? kDefaultLead : leading_number(rest.substr(at + 1)).value_or(0), ""};
}

std::vector<std::string> preflight(const Preflight& known) {
  std::vector<std::string> lines;
  const auto site = known.config.find("JobRequeue");
  if (known.job && !known.job->may_requeue) {
    const bool by_site = site != known.config.end() && site->second == "0";
    lines.push_back(
        str("this job may not be requeued (", by_site ? "slurm.conf has JobRequeue=0" : "--no-requeue",
            "): when its time is over, the run is saved and the job ends, and you have to submit it "
            "again; use sbatch --requeue"));
  }
  if (known.heterogeneous)
    lines.push_back(
        "this is a heterogeneous job: only the nodes of its first component, in which the batch script runs, "
        "train");
  check_exit_codes(known, lines);
  check_parent(known, lines);
  check_script(known, lines);
  if (known.gpus_not_asked_for > 0)
    lines.push_back(
        str("the job did not ask for GPUs. With --exclusive, Slurm gives them to the batch script, "
            "and may give none to the workers: add --gpus-per-node=",
            known.gpus_not_asked_for));
  if (!known.tasks.empty()) {
    const auto [least, most] = std::ranges::minmax(known.tasks);
    if (least != most)
      lines.push_back(str("Slurm gave the nodes ", least, " to ", most, " tasks, and each node gets ",
                          known.trainers_per_node, " of them: request --nodes and --ntasks-per-node"));
  }
  const std::uint64_t wanted = known.trainers_per_node * known.threads;
  if (known.least_cpus > 0 && known.least_cpus < wanted)
    lines.push_back(str("a node has ", known.least_cpus, " CPUs for ", known.trainers_per_node,
                        " trainers of ", known.threads, " threads: request --cpus-per-task=", known.threads,
                        " and one task per trainer on each node"));
  if (known.least_cpus > 4 * wanted && known.idle_micro_batches > 0)
    lines.push_back(
        str("a node has ", known.least_cpus, " CPUs, and the run uses ", wanted,
            " of them: one task per trainer on each node (--ntasks-per-node) uses more, and changes no bit; "
            "for GPUs, request them (--gpus-per-node)"));
  return lines;
}

std::uint64_t signal_lead(std::uint64_t state_bytes, double bytes_per_second) {
  constexpr double kLeast = 30, kMargin = 2, kRest = 10;  // kMargin is a factor, the others are seconds
  if (bytes_per_second <= 0) return static_cast<std::uint64_t>(kLeast);
  return static_cast<std::uint64_t>(
      std::ceil(std::max(kLeast, kRest + kMargin * static_cast<double>(state_bytes) / bytes_per_second)));
}

}  // namespace rekindle::slurm
