#include "slurm/ask.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <charconv>
#include <ctime>
#include <span>
#include <sstream>

#include "base/command.hpp"
#include "base/text.hpp"

#include "slurm/commands.hpp"

namespace rekindle::slurm {

namespace {

std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of("\n ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Result<std::string> ask(const std::vector<std::string>& argv, const CommandSetting& setting) {
  REKINDLE_TRY(CommandOutput output, run_command(argv, kAnswer, setting));
  if (output.ok()) return std::move(output.out);
  std::string reason = first_line(output.err);
  if (reason.empty()) reason = first_line(output.out);
  std::string command;
  for (const std::string& word : argv) command += (command.empty() ? "" : " ") + word;
  if (reason.empty())
    reason = output.status.by_signal ? str("killed by signal ", output.status.code)
                                     : str("exit code ", output.status.code);
  return fail(str(command, ": ", reason));
}

std::map<std::string, std::string> words_of(const std::string& text) {
  std::map<std::string, std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

Result<std::string> ask_for_job(const std::vector<std::string>& argv, const CommandSetting& setting) {
  REKINDLE_TRY(const std::string output, ask(argv, setting));
  // A site's own sbatch may print more.
  std::string id;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::string first = line.substr(0, line.find(';'));
    if (!first.empty() && first.find_first_not_of("0123456789") == std::string::npos) id = first;
  }
  if (id.empty()) return fail("sbatch printed no job id", kMayBeQueued);
  return id;
}

std::vector<std::string> env_without(const std::string& prefix) {
  std::vector<std::string> words{"env"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    const bool of_the_site = name == "SLURM_CONF" || name == "SLURM_CLUSTERS" || name == "SLURM_JWT";
    if (name.starts_with(prefix) && !of_the_site) words.push_back("--unset=" + name);
  }
  return words;
}

}  // namespace rekindle::slurm
