#include "view/run_events.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/json_reader.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "view/curve.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kNone = 0;
constexpr std::uint64_t kSlice = std::uint64_t{1} << 20;
constexpr std::size_t kLongest = 2000;  // bytes of an event's line for people

// The fields that are read.
constexpr JsonField kFields[] = {{"event", JsonType::kText},
                                 {"at", JsonType::kText},
                                 {"host", JsonType::kText},
                                 {"why", JsonType::kText},
                                 {"cause", JsonType::kText},
                                 {"generation", JsonType::kText},
                                 {"trainer", JsonType::kText},
                                 {"job", JsonType::kText},
                                 {"checkpoint", JsonType::kText},
                                 {"attempt", JsonType::kWhole},
                                 {"step", JsonType::kWhole},
                                 {"trainers", JsonType::kWhole},
                                 {"before", JsonType::kWhole},
                                 {"bytes", JsonType::kWhole},
                                 {"newest", JsonType::kWhole},
                                 {"exit_code", JsonType::kInt},
                                 {"seconds", JsonType::kNumberOrNull},
                                 {"test_loss", JsonType::kNumberOrNull}};

std::string number(const nlohmann::json& value) {
  return value.is_number() ? short_number(value.get<double>()) : "nan";
}

std::string evaluation_text(const nlohmann::json& line) {
  std::string text = str("test loss ", number(line.value("test_loss", nlohmann::json())));
  for (const auto& [key, value] : line.items()) {
    if (key.starts_with("test_") && key != "test_loss" && key != "test_count" && value.is_number())
      text += str(", ", printable(key.substr(5)), " ", number(value));
  }
  return str(text, " after step ", line.value("step", kNone));
}

std::string recovery_text(const nlohmann::json& line) {
  if (line.value("cause", "") == "coordinator")
    return "another coordinator goes on in place of one that died";
  const std::uint64_t step = line.value("step", kNone);
  return str("goes on with ", counted(line.value("trainers", kNone), "trainer"), " (",
             line.value("before", kNone), " before) from step ", step > 0 ? step - 1 : 0, ", after ",
             number(line.value("seconds", nlohmann::json())), " s");
}

// "" for an event of a newer version.
std::string text_of(const std::string& kind, const nlohmann::json& line) {
  const auto text = [&](const char* key) { return printable(line.value(key, "")); };
  const std::uint64_t step = line.value("step", kNone);
  if (kind == "started") return str("attempt ", line.value("attempt", kNone), " began on ", text("host"));
  if (kind == "generation")
    return str("generation ", text("generation"), " with ", counted(line.value("trainers", kNone), "trainer"),
               " begins at step ", step);
  if (kind == "lost")
    return str("trainer ", text("trainer"), " on ", text("host"), " was lost at step ", step, ": ",
               text("why"));
  if (kind == "slow") return str("trainer ", text("trainer"), " is slow: the others wait for it");
  if (kind == "not_slow") return str("trainer ", text("trainer"), " is no longer slow");
  if (kind == "recovered") return recovery_text(line);
  if (kind == "evaluated") return evaluation_text(line);
  if (kind == "saved")
    return str("saved ", text("checkpoint"), " (", format_bytes(line.value("bytes", kNone)), ")");
  if (kind == "restored")
    return str("checkpoint ", text("checkpoint"), " was read completely, and is correct");
  if (kind == "rewound")
    return str("goes back to step ", step, ": the ",
               counted(std::max(line.value("newest", step), step) - step, "step"),
               " after it are made again");
  if (kind == "requeued")
    return str("the job ends at step ", step, " (", text("cause"), ") and is queued again");
  if (kind == "stopped" || kind == "finished") return text("why");
  if (kind == "gave_up") return "gave up: " + text("why");
  return "";
}

std::optional<RunEvent> event_of(const std::string& text) {
  auto line = parse_object(text, kFields, "");
  if (!line) return std::nullopt;
  RunEvent event{.kind = line->value("event", ""),
                 .at = printable(line->value("at", "")),
                 .attempt = line->value("attempt", kNone),
                 .step = line->value("step", kNone),
                 .text = {},
                 .more = {}};
  event.text = text_of(event.kind, *line).substr(0, kLongest);
  event.more = std::move(*line);
  return event.text.empty() ? std::nullopt : std::optional(std::move(event));
}

}  // namespace

nlohmann::json RunEvent::json(const run::Layout& layout) const {
  nlohmann::json made = more;
  made.update({{"run", layout.root().string()}, {"text", text}});
  return made;
}

RunEvents::RunEvents(const run::Layout& layout, From from)
    : lines_(layout.events()), silent_(from == From::kNow) {
  // Of a run of weeks only the last line counts. If this fails, all of it is read.
  if (silent_) static_cast<void>(lines_.skip_to_last(std::uint64_t{1} << 16));
}

Result<RunEvents::Some> RunEvents::read_some() {
  Some some;
  REKINDLE_TRY(const LineTail::Slice slice, lines_.read_slice(kSlice));
  // Only a person moves the file away; the events of the new one are new.
  for (std::size_t begin = 0, end; (end = slice.text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    if (auto event = event_of(slice.text.substr(begin, end - begin)))
      some.events.push_back(std::move(*event));
  }
  some.more = slice.more;
  some.anew = slice.anew;
  if (!some.more && std::exchange(silent_, false)) some.events.clear();
  if (silent_) some.events.clear();
  return some;
}

Result<std::vector<RunEvent>> RunEvents::read_new() {
  std::vector<RunEvent> events;
  for (bool more = true; more;) {
    auto some = read_some();
    if (!some && events.empty()) return forward_error(std::move(some.error()));
    if (!some) break;  // those that were read are told first; the next call fails
    more = some->more;
    for (RunEvent& event : some->events) events.push_back(std::move(event));
  }
  return events;
}

}  // namespace rekindle::view
