#include "run/records.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/input_file.hpp"
#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "run/line_reader.hpp"

namespace rekindle::run {
namespace {

// The fields that are read. A damaged line may still be JSON, so each field's type is checked.
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

std::uint64_t most_bytes(const FilePath& path) {
  return path.filename() == "metrics.jsonl" ? kMostMetricsBytes : kMostAttemptsBytes;
}

Status check_length(const FilePath& path, std::uint64_t bytes) {
  if (bytes <= most_bytes(path)) return {};
  return fail(ExitCode::kConfig,
              str(path.string(), " has ", format_bytes(bytes), ", more than the ",
                  format_bytes(most_bytes(path)), " that a run may write there"),
              "move the file away; the run continues without those records");
}

// Only regular files are read: a pipe could block its reader forever, and so could a sparse file that is
// longer than any disk.
Result<InputFile> open_lines(const FilePath& path) {
  InputFile file;
  REKINDLE_TRY(file.fd, open_file(path, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if (!S_ISREG(info.st_mode))
    return fail(ExitCode::kConfig, str(path.string(), " is not a regular file"), "move it away");
  file.path = path;
  file.size = static_cast<std::uint64_t>(info.st_size);
  REKINDLE_CHECK(check_length(path, file.size));
  return file;
}

constexpr const char* kVoided = "\"voided\":true";

bool is_evaluation(const std::string& line) { return line.find("\"test_loss\"") != std::string::npos; }

// A run of weeks has millions of lines, of which few are evaluations: only evaluations are parsed. An error
// if not all can be read; a missing file has no evaluations.
template <class Visit>
Status each_evaluation(const Layout& layout, const Visit& visit) {
  if (const auto there = look_strictly_at(layout.metrics()); there && !*there) return {};
  REKINDLE_TRY(InputFile file, open_lines(layout.metrics()));
  LineReader lines(std::move(file));
  while (lines.next()) {
    if (!is_evaluation(lines.text())) continue;
    if (const auto json = parse_line(lines.text())) visit(*json);
  }
  return lines.status();
}

// The line's step, found without a full parse; nullopt if no coordinator wrote the line.
std::optional<std::uint64_t> step_in(const std::string& line) {
  constexpr std::string_view kKey = "\"step\":";
  const auto at = line.find(kKey);
  if (at == std::string::npos || !line.ends_with('}')) return std::nullopt;
  std::uint64_t step = 0;
  const char* begin = line.data() + at + kKey.size();
  const bool read = std::from_chars(begin, line.data() + line.size(), step).ec == std::errc();
  return read && step <= std::uint64_t{INT64_MAX} ? std::optional(step) : std::nullopt;
}

// Calls visit(line, bytes, stays) for each line; `stays`: the line belongs to `step` or an earlier step. An
// error if not all lines can be read: what was not visited may have to stay, too.
template <class Visit>
Status each_line_up_to(const FilePath& path, std::uint64_t step, const Visit& visit) {
  REKINDLE_TRY(InputFile file, open_lines(path));
  LineReader lines(std::move(file));
  while (lines.next()) {
    const auto at = step_in(lines.text());
    // A line without a line end is torn.
    visit(lines.text(), lines.bytes(), at && *at <= step && lines.ended());
  }
  return lines.status();
}

// In pieces, because the lines of months do not fit into memory.
Status copy_lines_up_to(const FilePath& from, const FilePath& to, std::uint64_t step) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  REKINDLE_TRY(Fd file, open_file(to, O_WRONLY | O_CREAT | O_EXCL));
  Status status;
  std::string piece;
  std::size_t written = 0;
  const auto write = [&] {
    status = write_all(file.get(), to, written, std::as_bytes(std::span(piece)));
    written += piece.size();
    piece.clear();
  };
  const Status read = each_line_up_to(from, step, [&](const std::string& line, std::uint64_t, bool stays) {
    if (!status || !stays) return;
    piece += line + "\n";
    if (piece.size() >= kPiece) write();
  });
  REKINDLE_CHECK(read);
  if (status) write();
  if (status) status = sync_file(file.get(), to);
  return status ? file.close(to) : status;
}

// How good an evaluation is: higher is better.
double score_of(const nlohmann::json& line, const BestBy& by) {
  const auto value = line.find("test_" + by.name);
  if (value == line.end() || !value->is_number()) return -std::numeric_limits<double>::infinity();
  return by.lowest ? -value->get<double>() : value->get<double>();
}

}  // namespace

Status check_records(const Layout& layout) {
  for (const FilePath& path : {layout.attempts(), layout.metrics()}) {
    const auto there = look_at(path);
    if (!there || !*there) continue;  // the code that needs the file reports this
    if (S_ISREG((*there)->st_mode))
      REKINDLE_CHECK(check_length(path, static_cast<std::uint64_t>((*there)->st_size)));
  }
  return {};
}

void each_line(const FilePath& file, const std::function<void(const nlohmann::json&)>& visit) {
  auto opened = open_lines(file);
  if (!opened) return;
  for (LineReader reader(std::move(*opened)); reader.next();) {
    if (const auto json = parse_line(reader.text())) visit(*json);
  }
}

Recorded recorded(const Layout& layout, const std::function<bool()>& give_up) {
  Recorded all;
  if (const auto there = look_strictly_at(layout.metrics()); there && !*there) return all;
  auto file = open_lines(layout.metrics());
  if (!file) {
    all.read = forward_error(std::move(file.error()));
    return all;
  }
  LineReader lines(std::move(*file), give_up);
  while (lines.next()) {
    const std::string& line = lines.text();
    const auto step = step_in(line);
    if (!step) continue;
    if (!is_evaluation(line)) {
      all.missing.insert(all.step + 1, *step - std::min<std::uint64_t>(*step, 1));
      all.missing.erase(*step);
      all.step = std::max(all.step, *step);
      if (line.find(kVoided) != std::string::npos) all.voided.insert(*step);
    } else if (parse_line(line)) {
      all.evaluated.insert(*step);
    }
  }
  all.given_up = lines.given_up();
  all.read = lines.status();
  return all;
}

Status MetricsFile::rewind(std::uint64_t step) {
  lines_.drop_pending_if([step](const std::string& line) {
    return step_in(line.substr(0, line.size() - 1)).value_or(0) > step;
  });
  REKINDLE_CHECK(lines_.mend());
  std::uint64_t kept = 0, place = 0;  // bytes; kept: up to the end of the last line that stays
  bool in_order = true;               // all removed lines are after all kept lines
  REKINDLE_CHECK(each_line_up_to(path_, step, [&](const std::string&, std::uint64_t bytes, bool stays) {
    in_order = in_order && (!stays || kept == place);
    place += bytes;
    if (stays) kept = place;
  }));
  if (in_order) return shorten_file(path_, kept);
  lines_.close();  // the path will name another file
  const FilePath temporary = temporary_beside(path_);
  Status status = copy_lines_up_to(path_, temporary, step);
  if (status) status = rename_durably(temporary, path_);
  if (!status) std::ignore = remove_file(temporary);
  return status;
}

void MetricsFile::add_unwritten(StepSet& steps) const {
  for (const std::string& line : lines_.pending()) {
    const auto step = is_evaluation(line) ? std::nullopt : step_in(line.substr(0, line.size() - 1));
    if (step) steps.insert(*step, *step);
  }
}

BestBy best_by(const std::string& best_metric) {
  if (best_metric.starts_with("min:")) return {best_metric.substr(4), true};
  if (best_metric.starts_with("max:")) return {best_metric.substr(4), false};
  return {best_metric, best_metric.ends_with("loss")};
}

Result<std::optional<std::uint64_t>> best_evaluated(const Layout& layout,
                                                    const std::set<std::uint64_t>& steps, const BestBy& by) {
  struct Best {
    BestBy by;
    std::optional<std::uint64_t> step = {};
    double highest = -std::numeric_limits<double>::infinity();
  };
  Best accuracy{best_by("accuracy")}, loss{best_by("loss")}, named{by};
  bool has_accuracy = false;  // the last line
  const Status read = each_evaluation(layout, [&](const nlohmann::json& line) {
    has_accuracy = line.contains("test_accuracy");
    const auto step = line.value("step", std::uint64_t{0});
    if (!steps.contains(step)) return;
    for (Best* best : {&accuracy, &loss, &named}) {
      const double score = score_of(line, best->by);
      if (score <= best->highest) continue;
      best->highest = score;
      best->step = step;
    }
  });
  REKINDLE_CHECK(read);
  if (!by.name.empty()) return named.step;
  return has_accuracy ? accuracy.step : loss.step;
}

std::optional<nlohmann::json> last_evaluation(const Layout& layout) {
  std::optional<nlohmann::json> last;
  std::ignore = each_evaluation(layout, [&](const nlohmann::json& line) { last = line; });
  return last;
}

std::uint64_t next_attempt(const Layout& layout) {
  std::uint64_t attempts = 0;
  each_line(layout.attempts(),
            [&](const nlohmann::json& line) { attempts += line.value("event", "") == "begin" ? 1 : 0; });
  return attempts + 1;
}

std::uint64_t newest_attempt(const Layout& layout) {
  return std::max<std::uint64_t>(1, next_attempt(layout) - 1);
}

Status record_attempt(const Layout& layout, const nlohmann::json& line) {
  return LineFile(layout.attempts()).append(line);
}

Status record_event(const Layout& layout, const std::string& event, nlohmann::json more) {
  more["event"] = event;
  more["at"] = utc_now_ms();
  return LineFile(layout.events()).append(more);
}

nlohmann::json last_intent(const Layout& layout) {
  const auto text = read_text(layout.requeue(), kMostOfANote);
  return (text ? parse_line(*text) : std::nullopt).value_or(nlohmann::json::object());
}

}  // namespace rekindle::run
