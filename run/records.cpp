#include "run/records.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "run/line_reader.hpp"

namespace rekindle::run {
namespace {

// What is read of a line. A damaged line may still be JSON.
constexpr JsonField kLineFields[] = {{"event", JsonType::kText},
                                     {"why", JsonType::kText},
                                     {"job", JsonType::kText},
                                     {"cause", JsonType::kText},
                                     {"node", JsonType::kText},
                                     {"successor", JsonType::kText},
                                     {"at", JsonType::kText},
                                     {"requeued", JsonType::kBool},
                                     {"restarts", JsonType::kWhole},
                                     {"number", JsonType::kWhole},
                                     {"step", JsonType::kWhole},
                                     {"trainers", JsonType::kWhole},
                                     {"loss", JsonType::kNumberOrNull},
                                     {"test_loss", JsonType::kNumberOrNull},
                                     {"test_accuracy", JsonType::kNumber}};

std::optional<nlohmann::json> parse_line(const std::string& line) {
  auto json = parse_object(line, kLineFields, "");
  if (!json) return std::nullopt;
  return std::move(*json);
}

// What is not a file, a pipe for instance, cannot be read: it might hold its reader up for ever.
std::ifstream open_lines(const FilePath& path) {
  std::ifstream in;
  const auto file = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (file && ::fstat(file->get(), &info) == 0 && S_ISREG(info.st_mode))
    in.open(str("/proc/self/fd/", file->get()));  // the file that was checked
  else
    in.setstate(std::ios::failbit);
  return in;
}

bool is_evaluation(const std::string& line) { return line.find("\"test_loss\"") != std::string::npos; }

// A run of weeks has millions of lines, and few of them are evaluations: only those are parsed.
// False if they cannot all be read; no file is no evaluation.
template <class Visit>
bool each_evaluation(const Layout& layout, const Visit& visit) {
  if (const auto there = look_at(layout.metrics()); there && !*there) return true;
  std::ifstream in = open_lines(layout.metrics());
  if (!in) return false;
  for (LineReader lines(in); lines.next();) {
    if (!is_evaluation(lines.text())) continue;
    if (const auto json = parse_line(lines.text())) visit(*json);
  }
  return !in.bad();
}

// Without parsing all of it; none for what no coordinator has written.
std::optional<std::uint64_t> step_in(const std::string& line) {
  constexpr std::string_view kKey = "\"step\":";
  const auto at = line.find(kKey);
  if (at == std::string::npos || !line.ends_with('}')) return std::nullopt;
  std::uint64_t step = 0;
  const char* begin = line.data() + at + kKey.size();
  const bool read = std::from_chars(begin, line.data() + line.size(), step).ec == std::errc();
  return read && step <= std::uint64_t{INT64_MAX} ? std::optional(step) : std::nullopt;
}

// Tells for each line whether it stays when `step` is the last one: visit(line, bytes, stays).
template <class Visit>
void each_line_up_to(const FilePath& path, std::uint64_t step, const Visit& visit) {
  std::ifstream in = open_lines(path);
  for (LineReader lines(in); lines.next();) {
    const auto at = step_in(lines.text());
    // A line that is not ended is torn.
    visit(lines.text(), lines.bytes(), at && *at <= step && lines.ended());
  }
}

}  // namespace

std::vector<nlohmann::json> read_lines(const FilePath& file) {
  std::vector<nlohmann::json> lines;
  std::ifstream in = open_lines(file);
  for (LineReader reader(in); reader.next();) {
    if (auto json = parse_line(reader.text())) lines.push_back(std::move(*json));
  }
  return lines;
}

Recorded recorded(const Layout& layout) {
  Recorded all;
  std::ifstream in = open_lines(layout.metrics());
  for (LineReader lines(in); lines.next();) {
    const std::string& line = lines.text();
    const auto step = step_in(line);
    if (!step) continue;
    if (!is_evaluation(line)) {
      all.missing.insert(all.step + 1, *step - std::min<std::uint64_t>(*step, 1));
      all.missing.erase(*step);
      all.step = std::max(all.step, *step);
    } else if (parse_line(line)) {
      all.evaluated.insert(*step);
    }
  }
  return all;
}

Status MetricsFile::rewind(std::uint64_t step) {
  lines_.drop_waiting_if([step](const std::string& line) {
    return step_in(line.substr(0, line.size() - 1)).value_or(0) > step;
  });
  REKINDLE_CHECK(lines_.mend());
  std::uint64_t kept = 0, place = 0;  // bytes, up to the end of the last line that stays
  bool in_order = true;               // what goes is all behind what stays
  each_line_up_to(path_, step, [&](const std::string&, std::uint64_t bytes, bool stays) {
    in_order = in_order && (!stays || kept == place);
    place += bytes;
    if (stays) kept = place;
  });
  if (in_order) return shorten_file(path_, kept);
  std::string lines;
  each_line_up_to(path_, step, [&](const std::string& line, std::uint64_t, bool stays) {
    if (stays) lines += line + "\n";
  });
  lines_.close();  // another file takes its place
  return replace_file(path_, lines);
}

void MetricsFile::add_unwritten(StepSet& steps) const {
  for (const std::string& line : lines_.waiting()) {
    const auto step = is_evaluation(line) ? std::nullopt : step_in(line.substr(0, line.size() - 1));
    if (step) steps.insert(*step, *step);
  }
}

Result<std::optional<std::uint64_t>> best_evaluated(const Layout& layout,
                                                    const std::set<std::uint64_t>& steps) {
  std::optional<std::uint64_t> best;
  double highest = -1;
  const bool read = each_evaluation(layout, [&](const nlohmann::json& line) {
    const double accuracy = line.value("test_accuracy", -1.0);
    const auto step = line.value("step", std::uint64_t{0});
    if (accuracy <= highest || !steps.contains(step)) return;
    highest = accuracy;
    best = step;
  });
  if (!read) return fail(str("cannot read ", layout.metrics().string()));
  return best;
}

std::optional<nlohmann::json> last_evaluation(const Layout& layout) {
  std::optional<nlohmann::json> last;
  std::ignore = each_evaluation(layout, [&](const nlohmann::json& line) { last = line; });
  return last;
}

std::uint64_t next_attempt(const Layout& layout) {
  std::uint64_t attempts = 0;
  for (const nlohmann::json& line : read_lines(layout.attempts()))
    attempts += line.value("event", "") == "begin";
  return attempts + 1;
}

std::uint64_t newest_attempt(const Layout& layout) {
  return std::max<std::uint64_t>(1, next_attempt(layout) - 1);
}

Status record_attempt(const Layout& layout, const nlohmann::json& line) {
  return LineFile(layout.attempts()).append(line);
}

}  // namespace rekindle::run
