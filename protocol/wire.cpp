#include "protocol/wire.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "protocol/message_names.hpp"

namespace rekindle::protocol {
namespace {

// Bytes that are not UTF-8 (in a path, for example) are replaced; the default would throw an exception.
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error unreadable(const nlohmann::json::exception& error) {
  return {ExitCode::kGaveUp, str("a message could not be read: ", error.what()),
          "do all processes have the same build?"};
}

// All other numeric fields are integers.
constexpr std::string_view kRealFields[] = {"check_ms",    "checkpoint_ms", "compute_ms",        "data_ms",
                                            "exchange_ms", "gradient_norm", "images_per_second", "loss",
                                            "lr",          "metrics",       "seconds_left",      "step_ms",
                                            "update_ms",   "write_ms"};

// nlohmann converts a real number to any requested type. The conversion of 1e30 to an integer is undefined.
nlohmann::json parse_message(std::string_view line) {
  nlohmann::json message = nlohmann::json::parse(line);
  std::vector<std::pair<const nlohmann::json*, std::string_view>> waiting = {{&message, ""}};
  while (!waiting.empty()) {
    const auto [value, key] = waiting.back();
    waiting.pop_back();
    if (value->is_number_float() && std::ranges::find(kRealFields, key) == std::end(kRealFields))
      throw nlohmann::json::other_error::create(501, str("field '", key, "' is not a whole number"), value);
    if (const auto* object = value->get_ptr<const nlohmann::json::object_t*>()) {
      // The names in "metrics" are the task's.
      for (const auto& [name, each] : *object)
        waiting.emplace_back(&each, key == "metrics" ? key : std::string_view(name));
    } else if (const auto* list = value->get_ptr<const nlohmann::json::array_t*>()) {
      for (const auto& each : *list) waiting.emplace_back(&each, key);
    }
  }
  return message;
}

// Ranks as runs [first, count]: most often all trainers of a generation have the state.
nlohmann::json runs_of(const std::vector<int>& ranks) {
  nlohmann::json runs = nlohmann::json::array();
  for (std::size_t i = 0, j = 0; i < ranks.size(); i = j) {
    while (j < ranks.size() && ranks[j] - ranks[i] == static_cast<int>(j - i)) ++j;
    runs.push_back({ranks[i], j - i});
  }
  return runs;
}

// Greater than any run. A few bytes of a message must not expand to many numbers.
constexpr std::int64_t kMostTrainers = 65536;

std::vector<int> ranks_of(const nlohmann::json& runs) {
  std::vector<int> ranks;
  for (const auto& run : runs) {
    const auto first = run.at(0).get<std::int64_t>(), count = run.at(1).get<std::int64_t>();
    if (first < 0 || count < 0 || first > kMostTrainers - count ||
        static_cast<std::int64_t>(ranks.size()) > kMostTrainers - count)
      throw nlohmann::json::other_error::create(501, str("ranks from ", first, " on are out of range"), &run);
    for (std::int64_t i = 0; i < count; ++i) ranks.push_back(static_cast<int>(first + i));
  }
  return ranks;
}

// The members of a Start follow its first line.
void append_members(std::string& text, const ToTrainer& message) {
  const auto* start = std::get_if<Start>(&message);
  if (start != nullptr) text.append("\n").append(start->members.text());
}

template <class Message>
Status take_members(Message&, std::string_view) {
  return {};
}
Status take_members(ToTrainer& message, std::string_view text) {
  auto* start = std::get_if<Start>(&message);
  const std::size_t line = first_line(text).size();
  if (start == nullptr || line == text.size()) return {};
  REKINDLE_TRY(start->members, MemberList::parse(text.substr(line + 1)));
  return {};
}

Error incomplete_registration() {
  return {ExitCode::kGaveUp, "a registration is incomplete", "do all processes have the same build?"};
}

template <class Variant>
std::string encode_any(const Variant& message) {
  return std::visit(
      [](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        static_assert(!kTypeName<T>.empty());
        // The name comes first, so that a worker need not read the rest.
        return str(kNamePrefix, kTypeName<T>, R"(","body":)", dump(body), "}");
      },
      message);
}

template <class Variant, std::size_t I = 0>
Result<Variant> decode_as(std::string_view type, const nlohmann::json& body) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return fail(str("unknown message '", type, "'"), "do all processes have the same build?");
  } else {
    using T = std::variant_alternative_t<I, Variant>;
    if (type == kTypeName<T>) return Variant(body.get<T>());
    return decode_as<Variant, I + 1>(type, body);
  }
}

}  // namespace

std::string encode(const FromTrainer& message) { return encode_any(message); }
std::string encode(const ToTrainer& message) {
  std::string text = encode_any(message);
  append_members(text, message);
  return text;
}
std::string encode(const ToSupervisor& message) { return encode_any(message); }
std::string encode(const ToCoordinator& message) { return encode_any(message); }

// {"registration": {...}, "lists": [bytes, ...], "list_of": [which, or -1; by trainer]}, then the lists.
std::string encode(const Registration& message) {
  std::vector<std::string_view> lists;
  std::vector<int> list_of;
  for (const TrainerState& state : message.trainers) {
    list_of.push_back(-1);
    if (!state.started || state.started->members.size() == 0) continue;
    const std::string_view text = state.started->members.text();
    const auto found = std::find(lists.begin(), lists.end(), text);
    list_of.back() = static_cast<int>(found - lists.begin());
    if (found == lists.end()) lists.push_back(text);
  }
  std::vector<std::size_t> sizes;
  sizes.reserve(lists.size());
  for (const std::string_view list : lists) sizes.push_back(list.size());
  std::string text = dump({{"registration", message}, {"lists", sizes}, {"list_of", list_of}}) + "\n";
  for (const std::string_view list : lists) text.append(list);
  return text;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string_view name_of(std::string_view text) {
  if (!text.starts_with(kNamePrefix)) return {};
  text.remove_prefix(kNamePrefix.size());
  return text.substr(0, std::min(text.find('"'), text.size()));
}

void to_json(nlohmann::json& json, const Start& start) {
  json = {{"generation", start.generation},
          {"rank", start.rank},
          {"secret", start.secret},
          {"step", start.step},
          {"recorded", start.recorded},
          {"sources", runs_of(start.sources)},
          {"restore", start.restore},
          {"unsaved_ms", start.unsaved_ms},
          {"saved", start.saved},
          {"verified", start.verified},
          {"evaluate", start.evaluate},
          {"stop", start.stop},
          {"without_nccl", start.without_nccl}};
}

void from_json(const nlohmann::json& json, Start& start) {
  json.at("generation").get_to(start.generation);
  json.at("rank").get_to(start.rank);
  json.at("secret").get_to(start.secret);
  json.at("step").get_to(start.step);
  json.at("recorded").get_to(start.recorded);
  start.sources = ranks_of(json.at("sources"));
  json.at("restore").get_to(start.restore);
  json.at("verified").get_to(start.verified);
  json.at("unsaved_ms").get_to(start.unsaved_ms);
  json.at("saved").get_to(start.saved);
  json.at("evaluate").get_to(start.evaluate);
  json.at("stop").get_to(start.stop);
  json.at("without_nccl").get_to(start.without_nccl);
}

template <class Message>
Result<Message> decode(std::string_view text) {
  try {
    const auto json = parse_message(first_line(text));
    REKINDLE_TRY(Message message, decode_as<Message>(json.at("type").get<std::string>(), json.at("body")));
    REKINDLE_CHECK(take_members(message, text));
    return message;
  } catch (const nlohmann::json::exception& error) {
    return forward_error(unreadable(error));
  }
}
template <>
Result<Registration> decode<Registration>(std::string_view text) {
  try {
    const std::string_view line = first_line(text);
    const auto json = parse_message(line);
    auto registration = json.at("registration").get<Registration>();
    std::vector<MemberList> lists;
    for (std::size_t at = line.size() + 1; const auto& bytes : json.at("lists")) {
      if (at > text.size()) return forward_error(incomplete_registration());
      REKINDLE_TRY(MemberList list, MemberList::parse(text.substr(at, bytes.get<std::size_t>())));
      lists.push_back(std::move(list));
      at += bytes.get<std::size_t>();
    }
    for (std::size_t i = 0; TrainerState & state : registration.trainers) {
      const int list = json.at("list_of").at(i++).get<int>();
      if (!state.started || list < 0) continue;
      if (static_cast<std::size_t>(list) >= lists.size()) return forward_error(incomplete_registration());
      state.started->members = lists[static_cast<std::size_t>(list)];
    }
    return registration;
  } catch (const nlohmann::json::exception& error) {
    return forward_error(unreadable(error));
  }
}
template Result<FromTrainer> decode<FromTrainer>(std::string_view);
template Result<Remembered> decode<Remembered>(std::string_view);
template Result<ToTrainer> decode<ToTrainer>(std::string_view);
template Result<ToSupervisor> decode<ToSupervisor>(std::string_view);
template Result<ToCoordinator> decode<ToCoordinator>(std::string_view);

std::string to_text(TrainerPhase phase) { return nlohmann::json(phase).get<std::string>(); }
std::string to_text(const GenerationId& id) { return str("t", id.term, ".g", id.number); }

}  // namespace rekindle::protocol
