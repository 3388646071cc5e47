#include "app/describe.hpp"

#include <algorithm>
#include <chrono>

#include "base/command.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;
using checkpoint::TensorSpec;

constexpr const char* kProgram = "rekindle-trainer";
// LibTorch loads from slow storage in some cases.
constexpr std::chrono::minutes kLimit{5};
constexpr std::pair<Role, const char*> kRoles[] = {
    {Role::kParameter, "parameter"}, {Role::kBuffer, "buffer"}, {Role::kOptimizer, "optimizer"}};

TensorSpec tensor_from(const nlohmann::json& json) {
  TensorSpec spec;
  spec.name = json.at("name").get<std::string>();
  spec.shape = json.at("shape").get<std::vector<std::int64_t>>();
  for (const Dtype dtype : checkpoint::kDtypes) {
    if (json.at("dtype") == checkpoint::name_of(dtype)) spec.dtype = dtype;
  }
  for (const auto& [role, name] : kRoles) {
    if (json.at("role") == name) spec.role = role;
  }
  return spec;
}

}  // namespace

nlohmann::json description_to_json(const Result<checkpoint::StateSpec>& spec) {
  if (!spec) {
    const Error& error = spec.error();
    return {{"error", {{"code", static_cast<int>(error.code)}, {"what", error.what}, {"hint", error.hint}}}};
  }
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSpec& each : *spec) {
    const auto* role = std::ranges::find(kRoles, each.role, &std::pair<Role, const char*>::first);
    tensors.push_back({{"name", each.name},
                       {"dtype", checkpoint::name_of(each.dtype)},
                       {"shape", each.shape},
                       {"role", role->second}});
  }
  return {{"tensors", tensors}};
}

Result<checkpoint::StateSpec> description_from_json(const std::string& line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (const auto error = json.find("error"); error != json.end())
      return fail(static_cast<ExitCode>(error->at("code").get<int>()), error->at("what").get<std::string>(),
                  error->at("hint").get<std::string>());
    checkpoint::StateSpec spec;
    for (const nlohmann::json& tensor : json.at("tensors")) spec.push_back(tensor_from(tensor));
    return spec;
  } catch (const nlohmann::json::exception& error) {
    return fail(str("the trainer's description of the model is not valid: ", error.what()),
                "use programs of one build of rekindle");
  }
}

Result<checkpoint::StateSpec> describe_model(const protocol::Job& job, int channels) {
  const std::vector<std::string> command = {program_path(kProgram).string(), "describe",
                                            nlohmann::json(job).dump(), str(channels)};
  REKINDLE_TRY(const CommandOutput output, run_command(command, kLimit, {.programs = kProgramsFd}));
  if (output.ok()) return description_from_json(output.out);
  const std::string why = output.err.substr(0, output.err.find('\n'));
  return fail(ExitCode::kConfig,
              str("the trainer program does not run here: ", why.empty() ? "it was killed" : why),
              "is LibTorch beside it?");
}

}  // namespace rekindle::app
