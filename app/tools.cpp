#include "app/tools.hpp"

#include <cstdio>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

using checkpoint::CheckpointId;
using checkpoint::Manifest;
namespace fs = std::filesystem;

namespace {

bool is_checkpoint(const fs::path& path) {
  std::error_code code;
  return fs::exists(path / "manifest.json", code);
}

fs::path without_slash(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

Status must_be_run(const run::Layout& layout) {
  std::error_code code;
  if (fs::exists(layout.config(), code) || fs::exists(layout.checkpoints(), code)) return {};
  return fail(ExitCode::kConfig, str(layout.root().string(), " is neither a run directory nor a checkpoint"),
              "give the --run-dir of a run, or one of its checkpoints/step-...");
}

std::string gigabytes(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / 1e9 << " GB";
  return text.str();
}

// "running" in a file that its writer left behind is not the truth.
std::string true_state(const run::Layout& layout, const nlohmann::json& status) {
  const std::string state = status.value("state", "unknown");
  if (state != "running") return state;
  const auto holder = run::newest_term(layout);
  return holder && *holder && run::provably_gone(**holder) ? "ended without a word (killed?)" : state;
}

// A checkpoint directory itself, or the newest (or that of `step`) of a run directory.
Result<fs::path> find_checkpoint(const fs::path& path, std::optional<std::uint64_t> step) {
  if (is_checkpoint(path)) return path;
  REKINDLE_CHECK(must_be_run(run::Layout(path)));
  for (const CheckpointId& id : checkpoint::list_committed(path)) {
    if (!step || id.step == *step) return checkpoint::directory_of(path, id);
  }
  return fail(ExitCode::kConfig,
              step ? str("there is no checkpoint of step ", *step) : "there is no committed checkpoint",
              str("see rekindle inspect ", path.string()));
}

Result<nlohmann::json> describe_checkpoint(const fs::path& directory) {
  REKINDLE_TRY(const Manifest manifest, checkpoint::read_manifest(directory));
  std::uint64_t bytes = 0;
  nlohmann::json shards = nlohmann::json::array();
  for (const checkpoint::ShardEntry& shard : manifest.shards) {
    bytes += shard.bytes;
    shards.push_back({{"file", shard.file}, {"bytes", shard.bytes}, {"datasets", shard.datasets.size()}});
  }
  const Status verified = checkpoint::verify(directory, manifest);
  return nlohmann::json{{"checkpoint", without_slash(directory).filename().string()},
                        {"step", manifest.id.step},
                        {"term", manifest.id.term},
                        {"generation", manifest.id.generation},
                        {"digest", manifest.digest},
                        {"created", manifest.created},
                        {"bytes", bytes},
                        {"tensors", manifest.contents.tensors.size()},
                        {"shards", shards},
                        {"identity", nlohmann::json::parse(manifest.identity, nullptr, false)},
                        {"fingerprint", nlohmann::json::parse(manifest.fingerprint, nullptr, false)},
                        {"whole", verified.has_value()},
                        {"damage", verified ? "" : verified.error().line()}};
}

void print_checkpoint(const nlohmann::json& c) {
  std::cout << c["checkpoint"].get<std::string>() << "\n"
            << "  step " << c["step"] << ", written " << c["created"].get<std::string>() << "\n"
            << "  digest      " << c["digest"].get<std::string>() << "\n"
            << "  size        " << gigabytes(c["bytes"].get<std::uint64_t>()) << " in " << c["shards"].size()
            << " shards, " << c["tensors"] << " tensors\n"
            << "  identity    " << c["identity"].dump() << "\n"
            << "  fingerprint " << c["fingerprint"].dump() << "\n"
            << "  "
            << (c["whole"].get<bool>() ? "whole: every byte verified"
                                       : "DAMAGED: " + c["damage"].get<std::string>())
            << "\n";
}

}  // namespace

Status request_stop(const fs::path& run_dir) {
  const run::Layout layout(run_dir);
  REKINDLE_CHECK(must_be_run(layout));
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  if (!holder || holder->ended) {
    return fail(ExitCode::kConfig, str("no run is going on in ", run_dir.string()),
                str("see rekindle status ", run_dir.string()));
  }
  const nlohmann::json request = {{"asked", utc_now()}, {"id", random_hex(8)}};
  REKINDLE_CHECK(replace_file(layout.stop_request(), request.dump() + "\n"));
  std::printf("%s\n",
              run::provably_gone(*holder)
                  ? "the run's coordinator is dead: the run stops if its supervisor starts another one"
                  : "the run was asked to stop: it saves its state and ends");
  return {};
}

Status show_status(const fs::path& run_dir, bool json) {
  const run::Layout layout(run_dir);
  REKINDLE_CHECK(must_be_run(layout));
  nlohmann::json status = nlohmann::json::object();
  if (const auto text = read_text(layout.status())) status = nlohmann::json::parse(*text, nullptr, false);
  if (!status.is_object()) status = nlohmann::json::object();
  status["state"] = true_state(layout, status);
  std::uint64_t peak = 0;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array()))
    peak += trainer.value("peak_pss_bytes", std::uint64_t{0});
  status["peak_pss_bytes"] = peak > 0 ? peak : status.value("peak_pss_bytes", std::uint64_t{0});
  status["checkpoints"] = nlohmann::json::array();
  for (const CheckpointId& id : checkpoint::list_committed(run_dir))
    status["checkpoints"].push_back(id.directory_name());
  if (const auto evaluation = run::last_evaluation(layout)) status["evaluation"] = *evaluation;
  if (json) {
    std::cout << status.dump(2) << "\n";
    return {};
  }
  std::cout << "run      " << layout.root().string() << "\n"
            << "state    " << status["state"].get<std::string>() << ", attempt " << status.value("attempt", 0)
            << ", term " << status.value("term", 0) << ", generation " << status.value("generation", "none")
            << "\n"
            << "step     " << status.value("step", 0) << " of " << status.value("steps", 0) << ", epoch "
            << status.value("epoch", 0) << "\n"
            << "loss     " << status.value("loss", 0.0) << ", " << status.value("images_per_second", 0.0)
            << " images/s\n";
  if (status.contains("evaluation")) {
    const auto& e = status["evaluation"];
    std::cout << "test     loss " << e.value("test_loss", 0.0) << ", accuracy "
              << 100 * e.value("test_accuracy", 0.0) << " % after step " << e.value("step", 0) << "\n";
  }
  std::cout << "memory   " << gigabytes(status["peak_pss_bytes"].get<std::uint64_t>())
            << " peak PSS over all trainers\n";
  for (const auto& t : status.value("trainers", nlohmann::json::array())) {
    std::cout << "trainer  rank " << t.value("rank", -1) << "  " << t.value("host", "") << "  "
              << t.value("device", "") << "  pid " << t.value("pid", 0) << "  " << t.value("phase", "")
              << " at step " << t.value("step", 0) << "  peak PSS "
              << gigabytes(t.value("peak_pss_bytes", std::uint64_t{0})) << "\n";
  }
  std::cout << "saved    ";
  if (status["checkpoints"].empty()) std::cout << "nothing yet";
  for (const auto& name : status["checkpoints"]) std::cout << name.get<std::string>() << "  ";
  std::cout << "\nupdated  " << status.value("updated", "never") << "\n";
  return {};
}

Status inspect(const fs::path& path, bool json) {
  std::vector<fs::path> directories;
  if (is_checkpoint(path)) {
    directories.push_back(path);
  } else {
    REKINDLE_CHECK(must_be_run(run::Layout(path)));
    for (const CheckpointId& id : checkpoint::list_committed(path))
      directories.push_back(checkpoint::directory_of(path, id));
  }
  nlohmann::json all = nlohmann::json::array();
  Status worst;
  for (const fs::path& directory : directories) {
    auto described = describe_checkpoint(directory);
    if (!described) {
      described = nlohmann::json{{"checkpoint", without_slash(directory).filename().string()},
                                 {"whole", false},
                                 {"damage", described.error().line()}};
      if (!json) std::cout << described->at("checkpoint").get<std::string>() << "\n";
    } else if (!json) {
      print_checkpoint(*described);
    }
    if (!described->at("whole").get<bool>()) {
      worst = fail(ExitCode::kConfig,
                   str(directory.string(), " is damaged: ", described->at("damage").get<std::string>()));
    }
    all.push_back(std::move(*described));
  }
  if (json) std::cout << all.dump(2) << "\n";
  if (!json && all.empty()) std::cout << "no committed checkpoint\n";
  return worst;
}

Status digest(const fs::path& path, std::optional<std::uint64_t> step) {
  REKINDLE_TRY(const fs::path directory, find_checkpoint(path, step));
  REKINDLE_TRY(const checkpoint::LoadedState loaded, checkpoint::load(directory));
  std::cout << loaded.manifest.digest << "\n";
  return {};
}

Status export_to(const fs::path& path, const fs::path& file, bool with_optimizer) {
  REKINDLE_TRY(const fs::path directory, find_checkpoint(path, std::nullopt));
  return checkpoint::export_file(directory, file, with_optimizer);
}

}  // namespace rekindle::app
