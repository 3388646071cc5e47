#include "app/given_tensors.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/foreign_file.hpp"
#include "app/places.hpp"
#include "base/text.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::app {
namespace {

Status write_to_memory(Fd& memory, const checkpoint::TensorSource& source) {
  REKINDLE_TRY(memory, memory_file("tensors"));
  return checkpoint::write_safetensors(Fd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)), "the tensors", source);
}

// The file's tensors without its moving average or, unless `raw`, with the average in the place of the
// tensors that have one. `averaged`: whether any has one.
checkpoint::TensorSource model_in(const checkpoint::TensorSource& file, bool raw, bool& averaged) {
  const auto places = checkpoint::places_by_name(file.tensors);
  const std::string prefix = str(checkpoint::kAverage, '.');
  const auto is_average = [&](const checkpoint::TensorSpec& tensor) {
    return tensor.name.starts_with(prefix) && places.contains(tensor.name.substr(prefix.size()));
  };
  // A model may have tensors of such names, but not the counters of an optimizer.
  const auto counters = places.find(checkpoint::kUpdateCounters);
  const bool counts =
      counters != places.end() && file.tensors[counters->second].dtype == checkpoint::Dtype::kInt32;
  const bool has_average = counts && std::ranges::any_of(file.tensors, is_average);
  averaged = has_average && !raw;
  checkpoint::StateSpec chosen;
  std::vector<std::size_t> from;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const checkpoint::TensorSpec& tensor = file.tensors[i];
    if (has_average && (is_average(tensor) || tensor.name == checkpoint::kUpdateCounters)) continue;
    const auto average = averaged ? places.find(prefix + tensor.name) : places.end();
    from.push_back(average != places.end() ? average->second : i);
    chosen.push_back(file.tensors[from.back()]);
    chosen.back().name = tensor.name;
  }
  return {std::move(chosen), [read = file.read, from = std::move(from)](
                                 std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) {
            return read(from[tensor], offset, out);
          }};
}

}  // namespace

Result<Given> take_checkpoint(const EvaluateOptions& options) {
  return read_checkpoint(
      options.source, options.step, [&options](const FilePath& directory) -> Result<Given> {
        Given given;
        REKINDLE_TRY(given.manifest, checkpoint::read_manifest(directory));
        using enum checkpoint::ExportContents;
        REKINDLE_TRY(const auto others, other_names_in(*given.manifest));
        REKINDLE_TRY(
            const checkpoint::ExportSource exported,
            checkpoint::export_source(directory, *given.manifest, options.raw ? kRawModel : kModel, others));
        REKINDLE_CHECK(write_to_memory(given.tensors, exported.source));
        given.averaged = exported.averaged;
        return given;
      });
}

Result<Given> take_file(const EvaluateOptions& options) {
  if (options.step) return fail(ExitCode::kUsage, "--step with a file", "it is for a run or a checkpoint");
  if (!options.given.contains("model"))
    return fail(ExitCode::kUsage, str("the model of ", options.source.string(), " is not known"),
                "add --model NAME, and --image-size or the sizes of gpt if they are not the usual ones; of a "
                "script: evaluate its run, or load the file in Python");
  Given given;
  REKINDLE_TRY(const checkpoint::SafetensorsFile file, open_foreign_file(options.source));
  REKINDLE_CHECK(write_to_memory(given.tensors, model_in(file.source(), options.raw, given.averaged)));
  return given;
}

}  // namespace rekindle::app
