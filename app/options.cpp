#include "app/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "app/run_config.hpp"
#include "app/spellings.hpp"
#include "base/duration.hpp"
#include "base/nearest.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {

JobOptions::JobOptions(CLI::App& command, AskNames ask) : command_(command), ask_(std::move(ask)) {
  command.allow_extras();
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as argparse does
  add_options(command, raw_);
}

std::string or_from_environment(const std::string& interface) {
  if (!interface.empty()) return interface;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (std::string value = environment_variable(name); !value.empty()) return value;
  }
  return "";
}

Status check_network(const std::string& interface, const std::string& port_range) {
  REKINDLE_CHECK(choose_address(interfaces(), interface));
  REKINDLE_CHECK(parse_port_range(port_range));
  return {};
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? "rekindle" : "rekindle " + command.get_name();
}

Error unknown_option(const CLI::App& command, const std::string& word, bool in_file) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::size_t dashes = word.find_first_not_of('-');
  const std::string bare = dashes == std::string::npos ? word : word.substr(dashes, word.find('=') - dashes);
  const std::string near = nearest_name(bare, names), all = str("see ", full_name(command), " --help");
  if (in_file)
    return {ExitCode::kConfig, str("unknown key '", word, "' in the configuration file"),
            near.empty() ? all : str("did you mean ", near, "?")};
  if (!word.starts_with("-")) return {ExitCode::kUsage, str("'", word, "' belongs to no option"), all};
  const std::string other = other_launchers_option(bare);
  return {ExitCode::kUsage, str("unknown option '", word, "'"),
          !other.empty() ? other
          : near.empty() ? all
                         : str("did you mean --", near, "?")};
}

namespace {

// Takes values from the file for options that the command line does not set.
Status apply_file(CLI::App& command, const std::filesystem::path& file, std::set<std::string>& applied) {
  REKINDLE_TRY(const auto entries, read_config_file(file));
  // A length on the command line replaces the file's, whichever of the two options it is.
  const bool has_length = command.count("--steps") + command.count("--epochs") > 0;
  for (const auto& [written, value] : entries) {
    const std::string key = usual_name(written);
    CLI::Option* option = command.get_option_no_throw("--" + key);
    if (option == nullptr || key == "config" || key.starts_with("help"))
      return forward_error(unknown_option(command, written, true));
    if (option->count() > 0 || (has_length && (key == "steps" || key == "epochs"))) continue;
    try {
      if (option->get_items_expected_max() == 0) {  // a flag
        if (value != "true" && value != "false")
          return fail(ExitCode::kConfig, str("'", key, "' in ", file.string(), " is neither true nor false"));
        if (value == "false") continue;
        option->add_result("true");
      } else {
        option->add_result(value);
      }
      option->run_callback();
      applied.insert(key);
    } catch (const CLI::Error& error) {
      return fail(ExitCode::kConfig, str(file.string(), ": ", error.what()));
    }
  }
  return {};
}

}  // namespace

Status JobOptions::read_file() {
  for (const std::string& extra : command_.remaining())
    return forward_error(unknown_option(command_, extra, false));
  if (!raw_.config_file.empty() && !std::exchange(file_is_read_, true))
    REKINDLE_CHECK(apply_file(command_, raw_.config_file, from_file_));
  return {};
}

Result<std::filesystem::path> JobOptions::run_dir() {
  REKINDLE_CHECK(read_file());
  if (raw_.run_dir.empty()) return std::filesystem::path();
  return std::filesystem::absolute(raw_.run_dir).lexically_normal();
}

Result<LocalOptions> JobOptions::resolve() {
  REKINDLE_CHECK(read_file());
  std::set<std::string> wrong;
  auto options = resolve_options(raw_, ask_, wrong);
  const auto is_of_file = [&](const std::string& name) { return from_file_.contains(name); };
  if (!options && std::ranges::any_of(wrong, is_of_file))
    return fail(ExitCode::kConfig, str(raw_.config_file, ": ", options.error().what), options.error().hint);
  return options;
}

}  // namespace rekindle::app
