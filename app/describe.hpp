// What the trainer program answers to `describe` (app/trainer_question.hpp), so that the front end links no
// model code and needs no reader of another program's data set.
//
//   describe               {"models": [{"name", "what", "samples", "options"}, ...],
//                           "datasets": [{"name", "what", "samples", "augment"}, ...]}
//   describe JOB CHANNELS  {"tensors": [{"name", "dtype", "shape", "role"}, ...],
//                           "tied": [other name, name, ...]}
//   describe JOB           {"data": {"samples", "channels", "context", "classes", "image_size",
//                                    "train_count", "test_count", "content_hash", "earlier_hash", "change",
//                                    "warning"},
//                           "tensors", "tied"}
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/known_names.hpp"
#include "base/result.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/state.hpp"
#include "data/dataset.hpp"
#include "protocol/job.hpp"

namespace rekindle::app {

struct Description {
  data::DatasetInfo data = {};  // only with JOB alone
  checkpoint::StateSpec state = {};
  std::vector<std::string> tied = {};  // as in protocol::Job
};

nlohmann::json description_to_json(const checkpoint::StateSpec& state,
                                   const std::vector<checkpoint::OtherName>& other_names);
void add_to_json(nlohmann::json& description, const data::DatasetInfo& data);
Result<Description> description_from_json(const std::string& line);
checkpoint::TensorSpec tensor_from_json(const nlohmann::json& tensor);
const char* name_of(data::SampleKind samples);
Result<KnownNames> names_from_json(const std::string& line);

// These ask the program `own_trainer`, which this process holds (base/programs.hpp), or if that is empty the
// trainer program beside this one. Errors: those of the answer (an unknown name, a size that does not fit); a
// trainer program that does not run here.
Result<KnownNames> ask_names(const std::filesystem::path& own_trainer);
// The tensors of the state, in canonical order. `channels`: of the images.
Result<Description> describe_model(const protocol::Job& job, int channels,
                                   const std::filesystem::path& own_trainer);
// The same with the data set, which the trainer program opens.
Result<Description> describe_with_data(const protocol::Job& job, const std::filesystem::path& own_trainer);

}  // namespace rekindle::app
