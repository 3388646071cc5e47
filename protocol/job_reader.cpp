#include "protocol/job_reader.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "protocol/training.hpp"

namespace rekindle::protocol {
namespace {

using nlohmann::json;

constexpr JsonField kRateFields[] = {{"since", JsonType::kWhole, Presence::kRequired},
                                     {"lr", JsonType::kNumber, Presence::kRequired},
                                     {"lr_step", JsonType::kWhole, Presence::kRequired},
                                     {"lr_gamma", JsonType::kNumber, Presence::kRequired}};

// Fields that every run.toml has; fields that later versions have added are not among them. to_toml() writes
// the keys in alphabetical order.
constexpr JsonField kFieldsOfARun[] = {{"batch_size", JsonType::kWhole, Presence::kRequired},
                                       {"lr", JsonType::kNumber, Presence::kRequired},
                                       {"micro_batches", JsonType::kWhole, Presence::kRequired},
                                       {"seed", JsonType::kWhole, Presence::kRequired},
                                       {"steps", JsonType::kWhole, Presence::kRequired},
                                       {"train_samples", JsonType::kWhole, Presence::kRequired},
                                       {"weight_decay", JsonType::kNumber, Presence::kRequired}};

JsonType type_of(const std::string& key, const json& value) {
  if (key == "earlier_rates") return JsonType::kObjects;
  if (value.is_array()) return JsonType::kTexts;
  if (value.is_string()) return JsonType::kText;
  if (value.is_boolean()) return JsonType::kBool;
  return value.is_number_float() ? JsonType::kNumber : JsonType::kWhole;
}

// All fields of an identity are fields of a job.
Status check_types(const json& object, const std::string& source) {
  const json defaults = Job{};
  std::vector<JsonField> fields;
  for (const auto& [key, value] : defaults.items()) fields.push_back({key.c_str(), type_of(key, value)});
  REKINDLE_CHECK(check_fields(object, fields, source));
  return check_objects(object, "earlier_rates", kRateFields, source);
}

Status check_values(const Job& job, const std::string& source) {
  // The first is a program that is executed.
  const std::tuple<const char*, std::string, std::vector<std::string>> names[] = {
      {"container_runtime", job.container_runtime, container_runtimes()},
      {"exchange", job.exchange, exchanges()},
      {"precision", job.precision, precisions()}};
  for (const auto& [key, value, known] : names) {
    if (std::ranges::find(known, value) == known.end())
      return fail(ExitCode::kConfig, str(source, ": field '", key, "' cannot be ", value));
  }
  REKINDLE_CHECK(task::check_values(job.task, source));
  REKINDLE_CHECK(check_whole({{"batch_size", job.batch_size, 1},
                              {"micro_batches", job.micro_batches, 1},
                              {"lr_step", job.lr_step, 1},
                              {"threads", job.threads, 1},
                              {"trainers_per_worker", job.trainers_per_worker, 1},
                              {"keep", job.keep, 1},
                              {"min_trainers", job.min_trainers, 1},
                              {"loader_threads", job.loader_threads}},
                             source));
  if (!std::has_single_bit(job.micro_batches) || job.batch_size % job.micro_batches != 0)
    return wrong_value("micro_batches", job.micro_batches, source);
  for (const Rates& rates : job.earlier_rates)
    REKINDLE_CHECK(check_whole({{"lr_step", rates.lr_step, 1}}, source));
  const auto schedule = schedule_of(job);
  Status valid = schedule ? optim::check_schedule(*schedule) : forward_error(schedule.error());
  if (const auto optimizer = optim::make_optimizer(optimizer_options(job)); valid && !optimizer)
    valid = forward_error(optimizer.error());
  if (!valid) return fail(ExitCode::kConfig, str(source, ": ", valid.error().what), valid.error().hint);
  return {};
}

}  // namespace

std::vector<std::string> container_runtimes() { return {"apptainer", "singularity", "srun"}; }
std::vector<std::string> exchanges() { return {"auto", "nccl", "shm", "tcp"}; }
std::vector<std::string> precisions() { return {"fp32", "bf16", "tf32"}; }

Result<Job> job_from_json(const json& object, const std::string& source) {
  REKINDLE_CHECK(check_types(object, source));
  json all = Job{};
  all.update(object);
  const Job job = all.get<Job>();
  REKINDLE_CHECK(check_values(job, source));
  return job;
}

Result<Job> job_of_run(const json& object, const std::string& source) {
  Status complete = check_fields(object, kFieldsOfARun, source);
  if (complete) complete = task::check_required(object, source);
  if (!complete) return fail(complete.error().code, complete.error().what, kMendRunToml);
  auto job = job_from_json(object, source);
  if (!job && job.error().hint.empty()) job.error().hint = kMendRunToml;
  if (job && job->steps == 0)
    return fail(ExitCode::kConfig, str(source, ": field 'steps' cannot be 0"), kMendRunToml);
  return job;
}

Result<Job> job_from_text(const std::string& text, const std::string& source) {
  REKINDLE_TRY(const json object, parse_object(text, {}, source));
  return job_from_json(object, source);
}

Result<json> identity_from_text(const std::string& text, const std::string& source) {
  REKINDLE_TRY(json identity, parse_object(text, {}, source));
  REKINDLE_CHECK(check_types(identity, source));
  return identity;
}

}  // namespace rekindle::protocol
