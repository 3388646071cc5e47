#include "run/records.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace rekindle::run {
namespace {

Status append_line(const Fd& file, const fs::path& path, const nlohmann::json& json) {
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // One write, so that a line is never interleaved; O_APPEND places it at the end.
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return forward_error(errno_error("cannot append to", path));
  }
  return {};
}

Result<Fd> open_for_append(const fs::path& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return forward_error(errno_error("cannot open", path));
  return file;
}

}  // namespace

std::vector<nlohmann::json> read_lines(const fs::path& file) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) lines.push_back(std::move(json));
  }
  return lines;
}

Status MetricsFile::rewind(std::uint64_t step) {
  file_.reset();
  std::error_code code;
  if (fs::exists(path_, code)) {
    std::ostringstream kept;
    for (const nlohmann::json& line : read_lines(path_)) {
      if (line.value("step", std::uint64_t{0}) <= step) kept << line.dump() << "\n";
    }
    REKINDLE_CHECK(replace_file(path_, kept.str()));
  }
  REKINDLE_TRY(file_, open_for_append(path_));
  return {};
}

Status MetricsFile::append(const nlohmann::json& line) {
  if (!file_) {
    REKINDLE_TRY(file_, open_for_append(path_));
  }
  return append_line(file_, path_, line);
}

std::set<std::uint64_t> evaluated_steps(const Layout& layout) {
  std::set<std::uint64_t> steps;
  for (const nlohmann::json& line : read_lines(layout.metrics())) {
    if (line.contains("test_loss")) steps.insert(line.value("step", std::uint64_t{0}));
  }
  return steps;
}

std::optional<std::uint64_t> best_evaluated(const Layout& layout, const std::set<std::uint64_t>& steps) {
  std::optional<std::uint64_t> best;
  double highest = -1;
  for (const nlohmann::json& line : read_lines(layout.metrics())) {
    const double accuracy = line.value("test_accuracy", -1.0);
    const auto step = line.value("step", std::uint64_t{0});
    if (accuracy <= highest || !steps.contains(step)) continue;
    highest = accuracy;
    best = step;
  }
  return best;
}

std::optional<nlohmann::json> last_evaluation(const Layout& layout) {
  std::optional<nlohmann::json> last;
  for (nlohmann::json& line : read_lines(layout.metrics())) {
    if (line.contains("test_loss")) last = std::move(line);
  }
  return last;
}

std::uint64_t next_attempt(const Layout& layout) {
  std::uint64_t attempts = 0;
  for (const nlohmann::json& line : read_lines(layout.attempts()))
    attempts += line.value("event", "") == "begin";
  return attempts + 1;
}

Status record_attempt(const Layout& layout, const nlohmann::json& line) {
  REKINDLE_TRY(const Fd file, open_for_append(layout.attempts()));
  return append_line(file, layout.attempts(), line);
}

}  // namespace rekindle::run
