#include <CLI/CLI.hpp>
#include <utility>

#include "app/option_table.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

const char* words_of(AtResume at_resume) {
  switch (at_resume) {
    case AtResume::kFree:
      return "may change";
    case AtResume::kMayBeAdded:
      return "may be added, then stays";
    case AtResume::kNames:
      return "names the run";
    case AtResume::kChangeLr:
      return "with `--change-lr`";
    case AtResume::kEqual:
      return "must be the same";
  }
  return "";
}

}  // namespace

const char* title_of(OptionGroup group) {
  using enum OptionGroup;
  switch (group) {
    case kEssential:
      return "Essentials";
    case kModel:
      return "Model and data";
    case kOptimizer:
      return "Optimizer and schedule";
    case kComputing:
      return "Computing";
    case kCheckpoints:
      return "Checkpoints and comparisons";
    case kFailures:
      return "Failures and stops";
    case kNetwork:
      return "Network";
    case kWatching:
      return "Watching";
    case kResume:
      return "Resuming";
  }
  return "";
}

std::string markdown_cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string options_page() {
  CLI::App command;
  RawOptions raw;
  std::string page =
      "# The options of a run\n\n"
      "For `rekindle local`, `rekindle slurm` and `rekindle submit`, and as keys of a `--config` file. This "
      "page is\n"
      "made from the table in `app/option_table.cpp`, as `--help-all` is. \"At a resume\" says whether the "
      "same run\n"
      "directory may be used with another value.\n\n"
      "`--workers` is of `local` alone. `slurm` refuses `--dry-run`, and `submit --dry-run` makes no step. A "
      "[Python\n"
      "script](python.md) brings its own model, data and loss, and refuses the options for them: `--model`, "
      "`--dataset`,\n"
      "`--data`, `--classes`, `--image-size`, `--augment`, `--skip-corrupt`, `--dropout`, `--layers`, "
      "`--heads`, `--width`,\n"
      "`--context`, `--model-options`, `--reset-head` and `--label-smoothing`.\n";
  const char* group = "";
  for (const OptionRow& row : option_table()) {
    const CLI::Option* option = row.add(command, raw, row);
    if (std::exchange(group, title_of(row.group)) != title_of(row.group))
      page += str("\n## ", group, "\n\n| option | what it does | at a resume |\n|---|---|---|\n");
    const std::string value = *row.value != '\0' ? str(" ", markdown_cell(row.value)) : "";
    page += str("| `--", row.name, value, "` | ", option->get_description(), " | ", words_of(row.at_resume),
                " |\n");
  }
  return page;
}

}  // namespace rekindle::app
