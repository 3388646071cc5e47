#include "app/describe.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "app/trainer_question.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

using checkpoint::Role;
using checkpoint::TensorSpec;
using data::SampleKind;
using nlohmann::json;

// LibTorch loads from slow storage in some cases, and a data set is read completely.
constexpr std::chrono::minutes kLimit{5}, kLimitWithData{30};
constexpr std::pair<Role, const char*> kRoles[] = {
    {Role::kParameter, "parameter"}, {Role::kBuffer, "buffer"}, {Role::kOptimizer, "optimizer"}};

SampleKind samples_from(const json& object) {
  return object.at("samples") == name_of(SampleKind::kText) ? SampleKind::kText : SampleKind::kImages;
}

data::DatasetInfo data_from(const json& object) {
  data::DatasetInfo info;
  info.samples = samples_from(object);
  info.channels = object.at("channels").get<int>();
  info.context = object.at("context").get<int>();
  info.classes = object.at("classes").get<int>();
  info.image_size = object.value("image_size", 0);
  info.train_count = object.at("train_count").get<std::size_t>();
  info.test_count = object.at("test_count").get<std::size_t>();
  info.content_hash = object.at("content_hash").get<std::string>();
  info.earlier_hash = object.value("earlier_hash", "");
  info.change = object.value("change", "");
  info.warning = object.value("warning", "");
  return info;
}

}  // namespace

TensorSpec tensor_from_json(const json& tensor) {
  TensorSpec spec;
  spec.name = tensor.at("name").get<std::string>();
  spec.shape = tensor.at("shape").get<std::vector<std::int64_t>>();
  spec.dtype = checkpoint::dtype_named(tensor.at("dtype").get<std::string>()).value_or(spec.dtype);
  for (const auto& [role, name] : kRoles) {
    if (tensor.at("role") == name) spec.role = role;
  }
  return spec;
}

const char* name_of(SampleKind samples) { return samples == SampleKind::kText ? "text" : "images"; }

json description_to_json(const checkpoint::StateSpec& state,
                         const std::vector<checkpoint::OtherName>& other_names) {
  json tensors = json::array(), tied = json::array();
  for (const TensorSpec& each : state) {
    const auto* role = std::ranges::find(kRoles, each.role, &std::pair<Role, const char*>::first);
    tensors.push_back({{"name", each.name},
                       {"dtype", checkpoint::name_of(each.dtype)},
                       {"shape", each.shape},
                       {"role", role->second}});
  }
  for (const checkpoint::OtherName& other : other_names) {
    tied.push_back(other.name);
    tied.push_back(other.of);
  }
  return {{"tensors", tensors}, {"tied", tied}};
}

void add_to_json(json& description, const data::DatasetInfo& data) {
  description["data"] = {{"samples", name_of(data.samples)},
                         {"channels", data.channels},
                         {"context", data.context},
                         {"classes", data.classes},
                         {"image_size", data.image_size},
                         {"train_count", data.train_count},
                         {"test_count", data.test_count},
                         {"content_hash", data.content_hash},
                         {"earlier_hash", data.earlier_hash},
                         {"change", data.change},
                         {"warning", data.warning}};
}

Result<Description> description_from_json(const std::string& line) {
  return read_answer(line, [](const json& answer) {
    Description description;
    for (const json& tensor : answer.at("tensors")) description.state.push_back(tensor_from_json(tensor));
    description.tied = answer.at("tied").get<std::vector<std::string>>();
    if (answer.contains("data")) description.data = data_from(answer.at("data"));
    return description;
  });
}

Result<KnownNames> names_from_json(const std::string& line) {
  return read_answer(line, [](const json& answer) {
    KnownNames names;
    for (const json& model : answer.at("models"))
      names.models.push_back(
          {model.at("name").get<std::string>(), samples_from(model), model.at("options").get<std::string>()});
    for (const json& dataset : answer.at("datasets"))
      names.datasets.push_back(
          {dataset.at("name").get<std::string>(), samples_from(dataset),
           data::augment_of(dataset.at("augment").get<std::string>()).value_or(data::Augment::kOff)});
    return names;
  });
}

Result<KnownNames> ask_names(const std::filesystem::path& own_trainer) {
  REKINDLE_TRY(const std::string line, ask_trainer(own_trainer, {{"describe"}, kLimit}));
  return names_from_json(line);
}

Result<Description> describe_model(const protocol::Job& job, int channels,
                                   const std::filesystem::path& own_trainer) {
  REKINDLE_TRY(const std::string line,
               ask_trainer(own_trainer, {{"describe", json(job).dump(), str(channels)}, kLimit}));
  return description_from_json(line);
}

Result<Description> describe_with_data(const protocol::Job& job, const std::filesystem::path& own_trainer) {
  REKINDLE_TRY(const std::string line,
               ask_trainer(own_trainer, {{"describe", json(job).dump()}, kLimitWithData}));
  auto described = description_from_json(line);
  if (described && described->data.content_hash.empty())
    return fail(ExitCode::kConfig, str("the data set ", job.task.dataset, " has no content hash"),
                "set DatasetInfo::content_hash: with it, a changed file is noticed");
  return described;
}

}  // namespace rekindle::app
