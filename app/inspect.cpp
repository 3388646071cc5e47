#include "app/inspect.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "app/places.hpp"
#include "app/print_json.hpp"
#include "app/run_config.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

using checkpoint::Manifest;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostOfAnEnvironment = std::size_t{16} << 20;  // bytes

// The run that contains a checkpoint, if any.
std::optional<protocol::Job> job_around(const FilePath& directory) {
  const fs::path run = run_of(directory.path());
  if (run.empty()) return std::nullopt;
  auto job = read_job(run::Layout(run, Trust::kForeign).config());
  return job && job->train_samples > 0 ? std::optional(*job) : std::nullopt;
}

json describe_shards(const Manifest& manifest) {
  json shards = json::array();
  for (const checkpoint::ShardEntry& shard : manifest.shards)
    shards.push_back({{"file", shard.file}, {"bytes", shard.bytes}, {"datasets", shard.datasets.size()}});
  return shards;
}

std::uint64_t file_bytes(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const checkpoint::ShardEntry& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

json describe_state(const Manifest& manifest) {
  std::uint64_t weights = 0, optimizer = 0;
  for (const checkpoint::TensorSpec& tensor : manifest.contents.tensors)
    (tensor.role == checkpoint::Role::kOptimizer ? optimizer : weights) += tensor.bytes();
  return {{"tensors", manifest.contents.tensors.size()},
          {"weight_bytes", weights},
          {"optimizer_bytes", optimizer}};
}

// "whole" is null if the bytes were not read, or could not be read.
json describe_look(const Status& found, bool verify) {
  if (found) {
    const json whole = verify ? json(true) : json(nullptr);
    return {{"verified", verify}, {"whole", whole}, {"damage", ""}, {"unreadable", ""}};
  }
  // Without --verify only file sizes were checked: a missing file counts as damage, too.
  const bool damaged =
      verify ? found.error().kind == ErrorKind::kDamage : found.error().kind != ErrorKind::kSystem;
  const std::string line = found.error().line();
  return {{"verified", verify},
          {"whole", damaged ? json(false) : json(nullptr)},
          {"damage", damaged ? line : ""},
          {"unreadable", damaged ? "" : line}};
}

json describe_checkpoint(const FilePath& directory, bool verify) {
  const fs::path path = without_slash(directory.path());
  json described = {{"checkpoint", path.filename().string()}, {"path", path.string()}};
  const auto manifest = checkpoint::read_manifest(directory);
  if (!manifest) {
    described.update(describe_look(forward_error(manifest.error()), verify));
    return described;
  }
  const auto job = job_around(directory);
  const auto age = age_of(manifest->created);
  described.update({{"step", manifest->id.step},
                    {"epoch", job ? json(protocol::epoch_of(*job, manifest->id.step)) : json(nullptr)},
                    {"term", manifest->id.term},
                    {"generation", manifest->id.generation},
                    {"digest", manifest->digest},
                    {"created", manifest->created},
                    {"age_seconds", age ? json(age->count()) : json(nullptr)},
                    {"bytes", file_bytes(*manifest)},
                    {"shards", describe_shards(*manifest)},
                    {"identity", json::parse(manifest->identity, nullptr, false)},
                    {"fingerprint", json::parse(manifest->fingerprint, nullptr, false)}});
  described.update(describe_state(*manifest));
  described.update(describe_look(
      verify ? checkpoint::verify(directory, *manifest) : checkpoint::check_files(directory, *manifest),
      verify));
  return described;
}

// A live run may delete old checkpoints, or set them aside, during the read.
bool deleted_meanwhile(const FilePath& directory) {
  const auto manifest = look_at(directory / "manifest.json");
  // If the folder is missing too, the storage is away.
  return manifest && !*manifest && is_folder(without_slash(directory.path()).parent_path());
}

std::string verdict(const json& c) {
  if (!c["damage"].get<std::string>().empty()) return "DAMAGED: " + c["damage"].get<std::string>();
  if (!c["unreadable"].get<std::string>().empty())
    return "UNREADABLE, it may be complete: " + c["unreadable"].get<std::string>();
  return c["verified"].get<bool>() ? "complete: every byte was read and is right"
                                   : "every file is there with its size; the bytes were not read";
}

// Damage is worse than a read error, which may be temporary.
Status worse_of(Status worst, const json& c) {
  const std::string path = c["path"], damage = c["damage"], unreadable = c["unreadable"];
  if (!damage.empty()) return fail(ExitCode::kConfig, str(path, " is damaged: ", damage));
  if (!unreadable.empty() && worst) return fail(str(path, " cannot be read: ", unreadable));
  return worst;
}

std::string when(const json& c) {
  std::string created = c["created"];
  if (c["age_seconds"].is_null()) return created;
  return str(created, ", ", format_duration(std::chrono::seconds(c["age_seconds"].get<std::int64_t>())),
             " ago");
}

void print_row(const std::string& name, const std::string& text) {
  std::cout << "  " << std::left << std::setw(12) << name << printable(text) << "\n";
}

// "a=1, b=two", in lines of about 100 characters.
void print_object(const std::string& name, const json& object) {
  std::string line, row = name;
  for (const auto& [key, value] : object.items()) {
    const std::string pair = str(key, "=", value.is_string() ? value.get<std::string>() : value.dump());
    if (!line.empty() && line.size() + pair.size() > 100) {
      print_row(std::exchange(row, ""), std::exchange(line, "") + ",");
    }
    line += (line.empty() ? "" : ", ") + pair;
  }
  print_row(row, line);
}

void print_checkpoint(const json& c) {
  std::cout << printable(c["checkpoint"].get<std::string>()) << "\n";
  if (c.contains("step")) {
    // The epoch of the last completed step, counted from 1.
    const auto job = job_around(c["path"].get<std::string>());
    const std::uint64_t step = c["step"];
    print_row("progress",
              str("step ", step,
                  job ? str(", epoch ", protocol::epoch_of(*job, step - (step > 0 ? 1 : 0)) + 1) : ""));
    print_row("written", when(c));
    print_row("digest", c["digest"]);
    print_row("size",
              str(format_bytes(c["bytes"]), ": weights ", format_bytes(c["weight_bytes"]), ", optimizer ",
                  format_bytes(c["optimizer_bytes"]), "; ", c["tensors"], " tensors"));
    std::string row = "files";
    for (const json& shard : c["shards"])
      print_row(std::exchange(row, ""),
                str(shard["file"].get<std::string>(), "  ", format_bytes(shard["bytes"]), ", ",
                    shard["datasets"], " datasets"));
    json identity = c["identity"];
    if (identity.value("dropout", 0.0) < 0) identity.erase("dropout");  // the model's own
    print_object("options", identity);
    print_object("made by", c["fingerprint"]);
  }
  print_row("check", verdict(c));
}

Result<std::vector<FilePath>> checkpoints_at(const run::Layout& layout) {
  if (is_checkpoint(layout.root())) return std::vector{layout.root()};
  REKINDLE_CHECK(must_be_run(layout));
  std::vector<FilePath> directories;
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed)
    directories.push_back(checkpoint::directory_of(layout.root(), id));
  return directories;
}

// Directories that are not committed checkpoints: set aside as damaged, in progress or left half-written.
json others_at(const run::Layout& layout) {
  json others = json::array();
  for (const std::string& name : names_in(layout.checkpoints()).value_or(std::vector<std::string>())) {
    const auto id = checkpoint::CheckpointId::parse(name);
    if (!id || !checkpoint::is_committed(layout.root(), *id).value_or(true)) others.push_back(name);
  }
  return others;
}

// NAME.damaged, NAME.damaged.2, ...
bool is_set_aside(const std::string& name) { return name.find(".damaged") != std::string::npos; }

void print_others(const json& others) {
  for (const json& name : others)
    std::cout << printable(name.get<std::string>()) << "\n  not a checkpoint: "
              << (is_set_aside(name) ? "set aside as damaged" : "under way, or left half-written") << "\n";
}

// What else the run directory keeps about the run. `null`: not there.
json describe_run(const run::Layout& layout) {
  json described = {
      {"options", nullptr}, {"programs", json::array()}, {"environment", nullptr}, {"logs", json::array()}};
  if (path_exists(layout.config())) described["options"] = layout.config().string();
  if (const auto note = read_text(layout.environment(), kMostOfAnEnvironment))
    described["environment"] = {{"file", layout.environment().string()},
                                {"variables", std::ranges::count(*note, '\n')}};
  for (const auto& [key, folder] : {std::pair{"programs", layout.programs()}, {"logs", layout.logs()}}) {
    for (const std::string& name : names_in(folder).value_or(std::vector<std::string>()))
      if (is_file(folder / name)) described[key].push_back(name);
  }
  return described;
}

void print_run(const run::Layout& layout, const json& described) {
  std::cout << printable(layout.root().string()) << "\n";
  const auto names = [](const json& list) {
    std::string text;
    for (const json& name : list) text += str(text.empty() ? "" : ", ", name.get<std::string>());
    return text;
  };
  if (!described["options"].is_null()) print_row("options", "run.toml");
  if (!described["programs"].empty()) print_row("programs", "bin/: " + names(described["programs"]));
  if (!described["environment"].is_null())
    print_row(
        "environment",
        str("environment: ", counted(described["environment"]["variables"].get<std::uint64_t>(), "variable"),
            ", secrets masked"));
  if (!described["logs"].empty()) print_row("logs", "logs/: " + names(described["logs"]));
}

}  // namespace

Status inspect(const fs::path& path, const InspectOptions& options) {
  const run::Layout layout(path, Trust::kForeign);
  json checkpoints = json::array(), others = json::array();
  Status worst;
  // Repeat if all listed checkpoints were deleted meanwhile: a live run then has newer ones.
  for (bool listed = true; listed && checkpoints.empty();) {
    REKINDLE_TRY(const std::vector<FilePath> directories, checkpoints_at(layout));
    listed = !directories.empty();
    for (const FilePath& directory : directories) {
      const json described = describe_checkpoint(directory, options.verify);
      if (!worse_of({}, described) && deleted_meanwhile(directory)) continue;
      checkpoints.push_back(described);
      if (!options.json) print_checkpoint(described);
      worst = worse_of(std::move(worst), described);
    }
  }
  json run;
  if (!is_checkpoint(layout.root())) {
    others = others_at(layout);
    run = describe_run(layout);
  }
  if (options.json) {
    const json all = {{"path", without_slash(path).string()},
                      {"run", run},
                      {"checkpoints", checkpoints},
                      {"others", others}};
    print_json(all);
    return worst;
  }
  if (checkpoints.empty()) std::cout << "no committed checkpoint\n";
  print_others(others);
  if (!run.is_null()) print_run(layout, run);
  return worst;
}

}  // namespace rekindle::app
