// A question to the trainer program, which knows the models and the data sets. The answer is the last line,
// of JSON: an object, or {"error": {"code", "what", "hint"}}. Lines before it say how far it is.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/lines.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace rekindle::app {

// Gets all lines so far, whenever there are more; "" before what a failed script has printed is shown.
using OnAnswer = std::function<void(const std::string& lines)>;

struct TrainerQuestion {
  std::vector<std::string> words = {};  // its arguments
  std::chrono::minutes limit;           // for the answer
  int in = -1;                          // a descriptor that it gets as stdin; -1: none
  OnAnswer on_answer = {};
};

// Asks the program `own_trainer`, which this process holds (base/programs.hpp), or if that is empty the
// trainer program beside this one. Errors: a trainer program that does not run here.
Result<std::string> ask_trainer(const std::filesystem::path& own_trainer, const TrainerQuestion& question);

nlohmann::json error_to_json(const Error& error);

// Reads an answer with `read`, or its error.
template <class Read>
auto read_answer(const std::string& lines, const Read& read) -> Result<decltype(read(nlohmann::json()))> {
  try {
    const auto answer = nlohmann::json::parse(last_line_of(lines));
    if (const auto error = answer.find("error"); error != answer.end())
      return fail(static_cast<ExitCode>(error->at("code").get<int>()), error->at("what").get<std::string>(),
                  error->at("hint").get<std::string>());
    return read(answer);
  } catch (const nlohmann::json::exception& error) {
    return fail(str("the answer of the trainer program is not valid: ", error.what()),
                "use programs of one build of rekindle");
  }
}

}  // namespace rekindle::app
