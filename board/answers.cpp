#include "board/answers.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "board/json_text.hpp"
#include "view/runs.hpp"

namespace rekindle::board {
namespace {

std::optional<std::uint64_t> whole(const std::string* text) {
  if (text == nullptr) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end == text->data() + text->size() ? std::optional(value) : std::nullopt;
}

}  // namespace

Answer json_answer(const nlohmann::json& json, unsigned status) {
  return {.status = status, .type = "application/json", .body = json_text(json) + "\n"};
}

Answer error_answer(unsigned status, const std::string& why) { return json_answer({{"error", why}}, status); }

Answer answer_without_page(const Decision& decision, const AccessRules& access) {
  switch (decision.verdict) {
    case Verdict::kExchange:
      // The path of the cookie is the folder of this address as the browser sees it, also behind a proxy. A
      // link may be clicked on a page of another site, as a chat's: a redirection would then come without the
      // cookie, and what this page opens comes with it.
      return {.type = "text/html; charset=utf-8",
              .body =
                  "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=./\">"
                  "<title>rekindle</title><a href=\"./\">the page</a>\n",
              .headers = {{"Set-Cookie", str(access.cookie, "=", access.cookie_value,
                                             "; HttpOnly; SameSite=Strict; Max-Age=604800")}}};
    case Verdict::kUnauthorized:
      if (decision.path == "/metrics")
        return error_answer(401, "send the token as a bearer token (--metrics-token-file)");
      return error_answer(
          401, "open the link again that rekindle prints (rekindle status RUN --link, rekindle board)");
    case Verdict::kForeignHost:
      return error_answer(403, "this host name is not allowed here (--allow-host)");
    case Verdict::kMethod:
      return error_answer(405, "only GET and HEAD");
    case Verdict::kServe:
    case Verdict::kBadRequest:
      break;
  }
  return error_answer(400, "not a request for this server");
}

view::CurveQuery query_of(const Decision& decision) {
  constexpr std::uint64_t kPoints = 1000;
  view::CurveQuery query;
  if (const std::string* names = decision.find("names")) {
    for (std::size_t begin = 0; begin <= names->size();) {
      const std::size_t end = std::min(names->find(',', begin), names->size());
      query.names.push_back(names->substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (const auto from = whole(decision.find("from"))) query.range.from = *from;
  if (const auto to = whole(decision.find("to"))) query.range.to = *to;
  query.points = std::clamp<std::uint64_t>(whole(decision.find("points")).value_or(kPoints), 1,
                                           view::History::kMostBuckets);
  return query;
}

// The run's name as it is in addresses.
std::string name_of(const std::filesystem::path& directory, const std::filesystem::path& folder) {
  const std::string name = directory.lexically_relative(folder).generic_string();
  return printable(name == "." ? directory.filename().string() : name);
}

nlohmann::json runs_json(const std::vector<std::filesystem::path>& found,
                         const std::filesystem::path& folder) {
  nlohmann::json runs = nlohmann::json::array();
  for (const std::filesystem::path& directory : found) {
    const view::RunSummary summary = view::summarize(directory);
    const std::string name = name_of(directory, folder);
    runs.push_back({{"name", name},
                    {"address", str("run/", encoded(name), "/")},
                    {"directory", printable(directory.string())},
                    {"state", summary.shown},
                    {"attempt", summary.attempt},
                    {"step", summary.step},
                    {"steps", summary.steps},
                    {"loss", summary.loss ? nlohmann::json(*summary.loss) : nlohmann::json()},
                    {"updated", printable(summary.updated)},
                    {"problem", printable(summary.problem)}});
  }
  return {{"now", utc_now_ms()}, {"runs", std::move(runs)}};
}

}  // namespace rekindle::board
