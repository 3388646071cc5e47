#include "slurm/sbatch_options.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "slurm/commands.hpp"
#include "slurm/script.hpp"

namespace rekindle::slurm {
namespace {

// Without the options that submit nothing or change sbatch's output (--help, --parsable, --test-only, ...),
// and without --container, which is rekindle's.
const std::set<std::string_view> kWithValue{"account",
                                            "acctg-freq",
                                            "array",
                                            "batch",
                                            "bb",
                                            "bbf",
                                            "begin",
                                            "chdir",
                                            "cluster",
                                            "cluster-constraint",
                                            "clusters",
                                            "comment",
                                            "constraint",
                                            "container-id",
                                            "core-spec",
                                            "cores-per-socket",
                                            "cpu-freq",
                                            "cpus-per-gpu",
                                            "cpus-per-task",
                                            "deadline",
                                            "delay-boot",
                                            "dependency",
                                            "distribution",
                                            "error",
                                            "exclude",
                                            "export",
                                            "export-file",
                                            "extra",
                                            "extra-node-info",
                                            "gid",
                                            "gpu-bind",
                                            "gpu-freq",
                                            "gpus",
                                            "gpus-per-node",
                                            "gpus-per-socket",
                                            "gpus-per-task",
                                            "gres",
                                            "gres-flags",
                                            "hint",
                                            "input",
                                            "job-name",
                                            "kill-on-invalid-dep",
                                            "licenses",
                                            "mail-type",
                                            "mail-user",
                                            "mcs-label",
                                            "mem",
                                            "mem-bind",
                                            "mem-per-cpu",
                                            "mem-per-gpu",
                                            "mincpus",
                                            "network",
                                            "nodefile",
                                            "nodelist",
                                            "nodes",
                                            "ntasks",
                                            "ntasks-per-core",
                                            "ntasks-per-gpu",
                                            "ntasks-per-node",
                                            "ntasks-per-socket",
                                            "open-mode",
                                            "output",
                                            "partition",
                                            "power",
                                            "prefer",
                                            "priority",
                                            "profile",
                                            "qos",
                                            "reservation",
                                            "signal",
                                            "sockets-per-node",
                                            "switches",
                                            "thread-spec",
                                            "threads-per-core",
                                            "time",
                                            "time-min",
                                            "tmp",
                                            "tres-bind",
                                            "tres-per-task",
                                            "uid",
                                            "wait-all-nodes",
                                            "wckey"};
// Some of these options have an optional value, always after "=".
const std::set<std::string_view> kWithoutValue{"contiguous", "exclusive",     "get-user-env", "hold",
                                               "ignore-pbs", "nice",          "no-kill",      "no-requeue",
                                               "overcommit", "oversubscribe", "propagate",    "reboot",
                                               "requeue",    "spread-job",    "use-min-nodes"};
constexpr std::string_view kShortWithValue = "AabBcCDdeFGiJLMmnNopqStwx";
constexpr std::string_view kShortWithoutValue = "HkOs";

// The number of words of the option that begins with `word`; 0: not an option of sbatch.
std::size_t words_of_option(const std::string& word) {
  if (word.starts_with("--")) {
    const std::size_t equals = word.find('=');
    const std::string_view name =
        std::string_view(word).substr(2, equals == std::string::npos ? equals : equals - 2);
    if (kWithoutValue.contains(name)) return 1;
    if (!kWithValue.contains(name)) return 0;
    return equals == std::string::npos ? 2 : 1;
  }
  if (word.size() < 2 || word[0] != '-') return 0;
  if (word.size() == 2 && kShortWithoutValue.find(word[1]) != std::string_view::npos) return 1;
  if (kShortWithValue.find(word[1]) == std::string_view::npos) return 0;
  return word.size() == 2 ? 2 : 1;  // -N 4, -N4
}

}  // namespace

std::vector<std::string> take_sbatch_options(std::vector<std::string>& words) {
  std::vector<std::string> taken, left;
  for (std::size_t i = 0; i < words.size();) {
    const std::size_t option = std::min(words_of_option(words[i]), words.size() - i);
    std::vector<std::string>& to = option > 0 ? taken : left;
    const std::size_t count = std::max<std::size_t>(option, 1);
    to.insert(to.end(), words.begin() + static_cast<std::ptrdiff_t>(i),
              words.begin() + static_cast<std::ptrdiff_t>(i + count));
    i += count;
  }
  words = std::move(left);
  return taken;
}

bool asks_for_gpus(const std::vector<std::string>& options) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& word = options[i];
    if (word.starts_with("--gpus") || word.starts_with("-G")) return true;
    const bool resources = word.starts_with("--gres=") || word.starts_with("--tres-per-task=");
    const bool before = i > 0 && (options[i - 1] == "--gres" || options[i - 1] == "--tres-per-task");
    if ((resources || before) && word.find("gpu") != std::string::npos) return true;
  }
  return false;
}

bool asks_for_cpus_alone(const std::vector<std::string>& options) {
  constexpr std::uint64_t kFew = 4;
  bool exclusive = false;
  for (const std::string& word : options) {
    if (word.starts_with("--ntasks") || (word.starts_with("-n") && !word.starts_with("--"))) return false;
    exclusive = exclusive || word == "--exclusive";  // "=user" and "=mcs" are no complete nodes
  }
  const auto cpus = option_value(options, "--cpus-per-task", 'c');
  return exclusive || (cpus && leading_number(*cpus).value_or(0) > kFew);
}

}  // namespace rekindle::slurm
