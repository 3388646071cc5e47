#include "app/tools.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/foreign_file.hpp"
#include "app/places.hpp"
#include "app/report.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "data/dataset.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

Status check_output(const fs::path& file, bool force) {
  REKINDLE_CHECK(checkpoint::check_writable_extension(file));
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  if (!is_folder(folder))
    return fail(ExitCode::kConfig, str(folder.string(), ": no such folder"), "make it, or give another file");
  if (!force && path_exists(file))
    return fail(ExitCode::kConfig, str(file.string(), " is there already"), "add --force to overwrite it");
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
  if (run::looks_gone(*holder) && run::supervisor_gone(*holder))
    line =
        "no process of the run seems to be alive: the run stops if it is just being started again, or if "
        "rekindle join takes it over; a command that begins later goes on";
  else if (run::looks_gone(*holder))
    line = "the run's coordinator is dead: the run stops when its supervisor has started another one";
  std::printf("%s\n", line);
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

Status import_file(const fs::path& file, const fs::path& out, bool force) {
  REKINDLE_CHECK(check_output(out, force));
  REKINDLE_TRY(const checkpoint::SafetensorsFile tensors, open_foreign_file(file));
  REKINDLE_CHECK(checkpoint::write_tensors(out, tensors.source()));
  say(str("wrote ", out.string(), ": ", tensors.tensors().size(), " tensors, ", size_of(out)));
  return {};
}

Status export_to(const fs::path& path, const fs::path& file, const ExportOptions& options) {
  REKINDLE_CHECK(check_output(file, options.force));
  return read_checkpoint(path, options.step, [&](const FilePath& directory) -> Status {
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
