#include "app/tools.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/foreign_file.hpp"
#include "app/places.hpp"
#include "app/report.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "data/dataset.hpp"
#include "protocol/describe.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

using checkpoint::CheckpointId;
namespace fs = std::filesystem;

namespace {

// A coordinator has claimed the run and has not written its first status.
constexpr const char* kStarting = "starting";

// If the coordinator was killed, the file still contains "running".
Result<std::string> true_state(const run::Layout& layout, const nlohmann::json& status) {
  std::string state = status.value("state", "unknown");
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  const bool newer = holder && holder->term > status.value("term", std::uint64_t{0});
  if (newer && !run::provably_gone(*holder)) return kStarting;
  if (state != "running") return state;
  return holder && run::provably_gone(*holder) ? "ended without a report (killed?)" : state;
}

// A number that is not finite is null in JSON.
double number_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  return found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

// "  NVIDIA H100, 12.0 GB of 80.0 GB in use, 97 % busy", of a trainer's GPU; "" without one.
std::string gpu_text(const nlohmann::json& trainer) {
  constexpr std::uint64_t kNone = 0;
  const std::string name = trainer.value("gpu", "");
  if (name.empty()) return "";
  std::string text = str("  ", printable(name));
  if (const auto total = trainer.value("gpu_total_bytes", kNone); total > 0)
    text += str(", ", format_bytes(trainer.value("gpu_used_bytes", kNone)), " of ", format_bytes(total),
                " in use");
  if (trainer.contains("gpu_busy_percent"))
    text += str(", ", trainer.value("gpu_busy_percent", kNone), " % busy");
  return text;
}

Status check_output(const fs::path& file) {
  REKINDLE_CHECK(checkpoint::check_writable_extension(file));
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  if (!is_folder(folder))
    return fail(ExitCode::kConfig, str(folder.string(), ": no such folder"), "make it, or give another file");
  return {};
}

std::string size_of(const fs::path& file) {
  const auto info = look_at(file).value_or(std::nullopt);
  return info ? format_bytes(static_cast<std::uint64_t>(info->st_size)) : "size unknown";
}

}  // namespace

Status write_stop_request(const run::Layout& layout) {
  const nlohmann::json request = {{"asked", utc_now()}, {"id", random_hex(8)}};
  return replace_file(layout.stop_request(), request.dump() + "\n");
}

Status request_stop(const fs::path& run_dir) {
  const run::Layout layout(run_dir);
  REKINDLE_CHECK(must_be_run(layout));
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  if (!holder || holder->ended) {
    return fail(ExitCode::kConfig, str("there is no live run in ", run_dir.string()),
                str("see rekindle status ", run_dir.string()));
  }
  REKINDLE_CHECK(write_stop_request(layout));
  const char* line = "the run was asked to stop: it saves its state and ends";
  if (run::provably_gone(*holder) && run::supervisor_gone(*holder))
    line =
        "no process of the run seems to be alive: the run stops if it is just being started again, or if "
        "rekindle join takes it over; a command that begins later goes on";
  else if (run::provably_gone(*holder))
    line = "the run's coordinator is dead: the run stops when its supervisor has started another one";
  std::printf("%s\n", line);
  return {};
}

Status show_status(const fs::path& run_dir, bool json) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_CHECK(must_be_run(layout));
  REKINDLE_CHECK(run::check_records(layout));
  REKINDLE_TRY(nlohmann::json status, run::read_status(layout));
  REKINDLE_TRY(status["state"], true_state(layout, status));
  if (status["state"] == kStarting && status.contains("attempt"))
    status["end"] = "the figures below are of the coordinator before this one";
  const bool running = status["state"] == "running";
  if (!running && status.contains("trainers"))
    for (auto& trainer : status["trainers"]) trainer["phase"] = "ended";
  std::uint64_t peak = 0;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array()))
    peak += trainer.value("peak_pss_bytes", std::uint64_t{0});
  status["peak_pss_bytes"] = peak > 0 ? peak : status.value("peak_pss_bytes", std::uint64_t{0});
  status["checkpoints"] = nlohmann::json::array();
  for (const CheckpointId& id : checkpoint::list_committed(layout.root()))
    status["checkpoints"].push_back(id.directory_name());
  if (const auto evaluation = run::last_evaluation(layout)) status["evaluation"] = *evaluation;
  if (json) {
    // A terminal gets only ASCII.
    std::cout << status.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
    return {};
  }
  // A status file may contain text from any source.
  const auto text = [](const nlohmann::json& in, const char* key, const char* otherwise) {
    return printable(in.value(key, otherwise));
  };
  constexpr std::uint64_t kNone = 0;
  constexpr std::string_view kTest = "test_";
  std::cout << "run      " << printable(layout.root().string()) << "\n"
            << "state    " << text(status, "state", "unknown") << ", attempt "
            << status.value("attempt", kNone) << ", term " << status.value("term", kNone) << ", generation "
            << text(status, "generation", "none") << "\n";
  if (const std::string end = text(status, "end", ""); !end.empty()) std::cout << "end      " << end << "\n";
  std::cout << "step     " << status.value("step", kNone) << " of " << status.value("steps", kNone)
            << ", epoch " << status.value("epoch", kNone) + 1 << "\n"
            << "loss     " << number_in(status, "loss") << ", " << number_in(status, "images_per_second")
            << " images/s\n";
  if (const auto voided = status.value("voided_steps", kNone); voided > 0)
    std::cout << "voided   " << counted(voided, "step") << " whose gradient was not finite changed nothing\n";
  if (status.contains("evaluation")) {
    const auto& e = status["evaluation"];
    std::cout << "test     " << protocol::metric_text("loss", number_in(e, "test_loss"));
    for (const auto& [key, value] : e.items()) {
      if (key.starts_with(kTest) && value.is_number() && key != "test_loss" && key != "test_count")
        std::cout << ", " << protocol::metric_text(printable(key.substr(kTest.size())), value.get<double>());
    }
    std::cout << " after step " << e.value("step", kNone) << "\n";
  }
  std::cout << "memory   " << format_bytes(status["peak_pss_bytes"].get<std::uint64_t>())
            << " peak PSS over all trainers\n";
  for (const auto& t : status.value("trainers", nlohmann::json::array())) {
    const std::int64_t rank = t.value("rank", std::int64_t{-1});
    std::cout << "trainer  " << (rank < 0 ? "spare" : str("rank ", rank)) << "  " << text(t, "host", "")
              << "  " << text(t, "device", "") << "  pid " << t.value("pid", kNone) << "  "
              << text(t, "phase", "") << " at step " << t.value("step", kNone) << "  peak PSS "
              << format_bytes(t.value("peak_pss_bytes", std::uint64_t{0})) << gpu_text(t) << "\n";
  }
  std::cout << "saved    ";
  if (status["checkpoints"].empty()) std::cout << "nothing yet";
  for (const auto& name : status["checkpoints"]) std::cout << printable(name.get<std::string>()) << "  ";
  std::cout << "\nupdated  " << text(status, "updated", "never") << "\n";
  return {};
}

Status digest(const fs::path& path, std::optional<std::uint64_t> step) {
  // The manifest's digest covers its chunks' hashes, and each chunk's hash is recomputed here.
  REKINDLE_TRY(const checkpoint::Manifest manifest,
               read_checkpoint(path, step, [](const FilePath& directory) -> Result<checkpoint::Manifest> {
                 REKINDLE_TRY(checkpoint::Manifest found, checkpoint::read_manifest(directory));
                 REKINDLE_CHECK(checkpoint::verify(directory, found));
                 return found;
               }));
  std::cout << manifest.digest << "\n";
  return {};
}

Status import_file(const fs::path& file, const fs::path& out) {
  REKINDLE_CHECK(check_output(out));
  REKINDLE_TRY(const checkpoint::SafetensorsFile tensors, open_foreign_file(file));
  REKINDLE_CHECK(checkpoint::write_tensors(out, tensors.source()));
  say(str("wrote ", out.string(), ": ", tensors.tensors().size(), " tensors, ", size_of(out)));
  return {};
}

Status export_to(const fs::path& path, const fs::path& file, const ExportOptions& options) {
  REKINDLE_CHECK(check_output(file));
  if (!options.force && path_exists(file))
    return fail(ExitCode::kConfig, str(file.string(), " is there already"), "add --force to overwrite it");
  return read_checkpoint(path, std::nullopt, [&](const FilePath& directory) -> Status {
    REKINDLE_TRY(const checkpoint::Manifest manifest, checkpoint::read_manifest(directory));
    using enum checkpoint::ExportContents;
    REKINDLE_TRY(const auto others, other_names_in(manifest));
    REKINDLE_TRY(const checkpoint::StateSpec written,
                 checkpoint::export_file(directory, file,
                                         options.with_optimizer ? kWholeState
                                         : options.raw          ? kRawModel
                                                                : kModel,
                                         others));
    say(str("wrote ", file.string(), ": ", written.size(), " tensors, ", size_of(file), ", of step ",
            manifest.id.step, " (", without_slash(directory.path()).filename().string(), ")"));
    return {};
  });
}

Status make_data(const std::string& kind, const fs::path& path, std::uint64_t samples, std::uint64_t seed) {
  REKINDLE_TRY(const data::DatasetRow* row, data::find_dataset(kind));
  REKINDLE_TRY(const data::MadeData made, data::make_data(kind, path, samples, seed));
  const char* noun = row->samples == data::SampleKind::kImages ? "images" : "contexts of 256 bytes";
  const std::string content = str("a made ", kind, " data set of ", made.train_count, " training and ",
                                  made.test_count, " test ", noun);
  say(made.files_written > 0
          ? str(path.string(), ": wrote ", content, " (", format_bytes(made.bytes), ")")
          : str(path.string(), ": nothing to do, ", content, " is there already, byte for byte"));
  return {};
}

}  // namespace rekindle::app
