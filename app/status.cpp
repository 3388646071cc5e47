#include "app/status.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "app/looking.hpp"
#include "app/places.hpp"
#include "app/print_json.hpp"
#include "base/bytes.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/describe.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "view/runs.hpp"
#include "view/terminal.hpp"

namespace rekindle::app {

using checkpoint::CheckpointId;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kNames = 9;       // columns of the names on the left
constexpr std::size_t kLongest = 2000;  // bytes of a line that --watch shows

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

Result<nlohmann::json> status_of(const run::Layout& layout) {
  REKINDLE_CHECK(may_become_run(layout.root().path()));
  REKINDLE_CHECK(run::check_records(layout));
  REKINDLE_TRY(nlohmann::json status, run::read_status(layout));
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  status["state"] = view::state_of(status, holder);
  if (status["state"] == view::kStarting && status.contains("attempt"))
    status["end"] = "the figures below are of the coordinator before this one";
  const bool running = status["state"] == "running";
  status["state"] = view::shown_state(layout, status["state"], holder);
  if (!running && status.contains("trainers"))
    for (auto& trainer : status["trainers"]) trainer["phase"] = "ended";
  std::uint64_t peak = 0;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array()))
    peak += trainer.value("peak_pss_bytes", std::uint64_t{0});
  status["peak_pss_bytes"] = peak > 0 ? peak : status.value("peak_pss_bytes", std::uint64_t{0});
  status["checkpoints"] = nlohmann::json::array();
  for (const CheckpointId& id : checkpoint::list_committed(layout.root()))
    status["checkpoints"].push_back(id.directory_name());
  status.erase("evaluation");  // from the file, which anybody may have written
  if (const auto evaluation = run::last_evaluation(layout)) status["evaluation"] = *evaluation;
  return status;
}

// One screen of text.
std::string text_of(const nlohmann::json& status, const run::Layout& layout) {
  std::ostringstream out;
  // A status file may contain text from any source.
  const auto text = [](const nlohmann::json& in, const char* key, const char* otherwise) {
    return printable(in.value(key, otherwise));
  };
  constexpr std::uint64_t kNone = 0;
  constexpr std::string_view kTest = "test_";
  out << "run      " << printable(layout.root().string()) << "\n"
      << "state    " << text(status, "state", "unknown") << ", attempt " << status.value("attempt", kNone)
      << ", term " << status.value("term", kNone) << ", generation " << text(status, "generation", "none")
      << "\n";
  if (const std::string end = text(status, "end", ""); !end.empty()) out << "end      " << end << "\n";
  out << "step     " << status.value("step", kNone) << " of " << status.value("steps", kNone);
  if (status.contains("epoch")) out << ", epoch " << status.value("epoch", kNone) + 1;
  if (status.contains("loss"))
    out << "\nloss     " << number_in(status, "loss") << ", " << number_in(status, "images_per_second")
        << " images/s\n";
  else
    out << "\nloss     not known until the next step\n";
  if (const auto voided = status.value("voided_steps", kNone); voided > 0)
    out << "voided   " << counted(voided, "step") << " whose gradient was not finite changed nothing\n";
  if (status.contains("evaluation")) {
    const auto& e = status["evaluation"];
    out << "test     " << protocol::metric_text("loss", number_in(e, "test_loss"));
    for (const auto& [key, value] : e.items()) {
      if (key.starts_with(kTest) && value.is_number() && key != "test_loss" && key != "test_count")
        out << ", " << protocol::metric_text(printable(key.substr(kTest.size())), value.get<double>());
    }
    out << " after step " << e.value("step", kNone) << "\n";
  }
  out << "memory   " << format_bytes(status["peak_pss_bytes"].get<std::uint64_t>())
      << " peak PSS over all trainers\n";
  for (const auto& t : status.value("trainers", nlohmann::json::array())) {
    const std::int64_t rank = t.value("rank", std::int64_t{-1});
    out << "trainer  " << (rank < 0 ? "spare" : str("rank ", rank)) << "  " << text(t, "host", "") << "  "
        << text(t, "device", "") << "  pid " << t.value("pid", kNone) << "  " << text(t, "phase", "")
        << " at step " << t.value("step", kNone) << "  peak PSS "
        << format_bytes(t.value("peak_pss_bytes", std::uint64_t{0})) << gpu_text(t) << "\n";
  }
  out << "saved    ";
  if (status["checkpoints"].empty()) out << "nothing yet";
  for (const auto& name : status["checkpoints"]) out << printable(name.get<std::string>()) << "  ";
  out << "\nupdated  " << text(status, "updated", "never") << "\n";
  return out.str();
}

// As many lines as there is room for.
void show_screen(const std::string& content) {
  std::istringstream text(content);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    std::istringstream parts(view::folded(line.substr(0, kLongest), view::columns_of(stdout, 79), kNames));
    for (std::string part; std::getline(parts, part);) lines.push_back(part);
  }
  const std::size_t room = view::rows_of(stdout, 24) - 1;
  if (lines.size() > room) {
    lines.resize(room);
    lines.back() = "...";
  }
  // Each line is cleared when it is written: to clear the screen first would flicker.
  std::string screen = "\033[H";
  for (const std::string& line : lines) screen += line + "\033[K\n";
  std::cout << screen << "\033[J" << std::flush;
}

}  // namespace

Status show_status(const fs::path& run_dir, bool json) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_TRY(const nlohmann::json status, status_of(layout));
  if (json)
    print_json(status);
  else
    std::cout << text_of(status, layout);
  return {};
}

Status watch_status(const fs::path& run_dir) {
  const run::Layout layout(run_dir, Trust::kForeign);
  if (!view::is_terminal(stdout))
    return fail(ExitCode::kUsage, "--watch is for a terminal", "use --json, or rekindle wait");
  REKINDLE_CHECK(may_become_run(run_dir));
  for (Patience patience;;) {
    const auto begin = LookClock::now();
    const auto status = status_of(layout);
    if (!patience.allows(status)) return forward_error(status.error());
    if (status) show_screen(text_of(*status, layout));
    if (!std::cout) return fail("the output is closed");
    // Of a long run, the records take a while to read.
    std::this_thread::sleep_for(
        std::max<LookClock::duration>(std::chrono::seconds(1), 10 * (LookClock::now() - begin)));
  }
}

}  // namespace rekindle::app
