#include "app/trainer_question.hpp"

#include <algorithm>
#include <csignal>

#include "base/command.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/programs.hpp"

namespace rekindle::app {

constexpr const char* kProgram = "rekindle-trainer";

Result<std::string> ask_trainer(const std::filesystem::path& own_trainer, const TrainerQuestion& question) {
  const bool own = !own_trainer.empty();
  if (!own && !path_exists(program_path(kProgram)))
    return fail(ExitCode::kConfig, "this installation has no models of its own",
                "train with a script, or install another package: see docs/install.md");
  std::vector<std::string> argv = {own ? held_trainer().string() : program_path(kProgram).string()};
  argv.insert(argv.end(), question.words.begin(), question.words.end());
  CommandSetting setting;
  setting.in = question.in;
  setting.on_output = question.on_answer;
  if (!own) setting.programs = kProgramsFd;
  REKINDLE_TRY(const CommandOutput output, run_command(argv, question.limit, setting));
  if (output.ok()) return output.out;
  if (!own) {  // the loader's own message does not name the node
    const auto libraries = libraries_of(program_path(kProgram), kProgramsFd);
    if (!libraries)
      return fail(ExitCode::kConfig, libraries.error().what, "is the folder with LibTorch there?");
  }
  // An exception: libraries are not the reason.
  if (const std::size_t at = output.err.find("terminate called"); at != std::string::npos) {
    std::string why = output.err.substr(at);
    std::ranges::replace(why, '\n', ' ');
    return fail(ExitCode::kConfig, str("the trainer program failed: ", why),
                "does the job have enough memory?");
  }
  if (own && output.status.by_signal)
    return fail(ExitCode::kConfig,
                str("the trainer program ", own_trainer.string(), " ended by signal ", output.status.code,
                    " while it was asked for its model and data"),
                output.status.code == SIGKILL ? "does the job have enough memory?"
                                              : "look at the model and the data set");
  const std::string why = first_line_of(output.err);
  return fail(ExitCode::kConfig,
              str("the trainer program ", own_trainer.string(), own ? " " : "",
                  "does not run here: ", why.empty() ? "it was killed" : why),
              "is LibTorch beside it?");
}

nlohmann::json error_to_json(const Error& error) {
  return {{"error", {{"code", static_cast<int>(error.code)}, {"what", error.what}, {"hint", error.hint}}}};
}

}  // namespace rekindle::app
