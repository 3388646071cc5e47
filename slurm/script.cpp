#include "slurm/script.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/text.hpp"

namespace rekindle::slurm {

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "@%+=:,./-_";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

Status check_words(const JobScript& script) {
  std::vector<std::string> words = {script.name, script.output, script.directory};
  words.insert(words.end(), script.options.begin(), script.options.end());
  words.insert(words.end(), script.command.begin(), script.command.end());
  for (const std::string& word : words) {
    if (!has_control_characters(word)) continue;
    const auto shown = nlohmann::json(word).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return fail(ExitCode::kUsage, str("a batch script cannot have line ends or control characters: ", shown),
                "use other names and options");
  }
  return {};
}

std::string to_text(const JobScript& script) {
  std::ostringstream out;
  out << "#!/bin/bash\n"
         "# Written by rekindle submit. `sbatch` with this file submits the run again, which then goes on.\n";
  const auto directive = [&out](const std::string& option) { out << "#SBATCH " << option << "\n"; };
  directive("--job-name=" + quoted(script.name));
  directive("--output=" + quoted(script.output));
  directive("--open-mode=append");
  directive("--requeue");
  directive("--no-kill");
  directive("--signal=B:USR1@" + std::to_string(script.lead_seconds));
  // The value of an option may be a separate word.
  for (std::size_t i = 0; i < script.options.size(); ++i) {
    std::string option = quoted(script.options[i]);
    const bool has_value = i + 1 < script.options.size() && !script.options[i + 1].starts_with("-");
    if (has_value) option += " " + quoted(script.options[++i]);
    directive(option);
  }
  const std::string directory = quoted(script.directory);
  const std::string program = script.command.empty() ? "" : quoted(script.command[0]);
  out << "\n# The shared storage of a node that has just booted may appear late.\nfor ((wait = 0; wait < 60; "
         "++wait)); do\n  [[ -d "
      << directory;
  if (program.find('/') != std::string::npos) out << " && -x " << program;
  out << " ]] && break\n  sleep 5\ndone\ncd " << directory << " || exit 78\nexec";
  for (const std::string& word : script.command) out << " " << quoted(word);
  out << "\n";
  return out.str();
}

bool has_run_dir(const std::string& text, const std::string& run_dir) {
  for (const std::string& words :
       {str(" --run-dir ", quoted(run_dir)), str(" ", quoted(str("--run-dir=", run_dir)))}) {
    if (text.find(words + " ") != std::string::npos || text.find(words + "\n") != std::string::npos)
      return true;
  }
  return false;
}

std::filesystem::path without_patterns(const std::filesystem::path& path) {
  std::filesystem::path plain;
  for (const auto& part : path) {
    if (part.string().find('%') != std::string::npos) break;
    plain /= part;
  }
  return plain;
}

std::optional<std::string> option_value(const std::vector<std::string>& words, const std::string& name,
                                        char letter) {
  const std::string short_name = letter == '\0' ? name : std::string{'-', letter};
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::string& word = words[i];
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
    if (letter != '\0' && word.starts_with(short_name) && word.size() > 2) return word.substr(2);
    if ((word == name || word == short_name) && i + 1 < words.size()) return words[i + 1];
  }
  return std::nullopt;
}

}  // namespace rekindle::slurm
