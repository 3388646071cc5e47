#include "board/service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "board/exposition.hpp"
#include "board/json_text.hpp"
#include "board/parts.hpp"
#include "board/run_page.hpp"
#include "view/runs.hpp"

namespace rekindle::board {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLook{1}, kUnused{600}, kKeepAlive{15};
constexpr std::string_view kRun = "/run/";
constexpr std::size_t kMostPending = 64;  // answers that wait for storage

Answer json_answer(const nlohmann::json& json, unsigned status = 200) {
  return {.status = status, .type = "application/json", .body = json_text(json) + "\n"};
}

Answer error_answer(unsigned status, const std::string& why) { return json_answer({{"error", why}}, status); }

std::optional<std::uint64_t> whole(const std::string* text) {
  if (text == nullptr) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end == text->data() + text->size() ? std::optional(value) : std::nullopt;
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

nlohmann::json runs_json(const std::filesystem::path& folder) {
  nlohmann::json runs = nlohmann::json::array();
  for (const std::filesystem::path& directory : view::find_runs(folder)) {
    const view::RunSummary summary = view::summarize(directory);
    const std::string name = name_of(directory, folder);
    runs.push_back({{"name", name},
                    {"address", str("run/", encoded(name), "/")},
                    {"directory", printable(directory.string())},
                    {"state", summary.state},
                    {"attempt", summary.attempt},
                    {"step", summary.step},
                    {"steps", summary.steps},
                    {"loss", summary.loss ? nlohmann::json(*summary.loss) : nlohmann::json()},
                    {"updated", printable(summary.updated)},
                    {"problem", printable(summary.problem)}});
  }
  return {{"now", utc_now_ms()}, {"runs", std::move(runs)}};
}

}  // namespace

struct Service::Watched {
  explicit Watched(std::string of) : name(std::move(of)) {}
  std::string name;             // below the folder; "": the folder is the run
  std::optional<RunPage> page;  // used in the storage's thread; without a value: there is no such run
  // The rest is used in the server's thread.
  std::vector<std::shared_ptr<EventStream>> streams;
  Clock::time_point used = Clock::now(), sent = Clock::now();
  bool looking = false;  // a reading for the streams is under way
  bool scraped = false;  // its counters must not fall
};

Service::Service(asio::io_context& io, ServiceOptions options)
    : io_(io), options_(std::move(options)), timer_(io), storage_(1) {
  tick();
}

Service::~Service() {
  storage_.stop();  // what has not begun is not done
  storage_.join();
}

Decision Service::decide(const Request& request) const { return board::decide(request, options_.access); }

Service::Place Service::place_of(const std::string& path) const {
  if (options_.one_run) return {.run = "", .rest = path.substr(1), .of_board = false};
  if (!path.starts_with(kRun)) return {.run = "", .rest = path.substr(1), .of_board = true};
  const std::string rest = path.substr(kRun.size());
  // A run's name may have slashes, and its parts have fixed names.
  for (const char* part : {"/api/summary", "/api/curves", "/api/live"})
    if (rest.ends_with(part))
      return {.run = rest.substr(0, rest.size() - std::string_view(part).size()), .rest = part + 1};
  const std::size_t slash = rest.rfind('/');
  if (slash == std::string::npos) return {.run = rest, .rest = "?", .of_board = false};
  return {.run = rest.substr(0, slash), .rest = rest.substr(slash + 1), .of_board = false};
}

std::shared_ptr<Service::Watched> Service::watched(const std::string& name) {
  auto& known = watched_[name];
  if (!known) known = std::make_shared<Watched>(name);
  known->used = Clock::now();
  return known;
}

// In the storage's thread.
RunPage* Service::open(Watched& watched) const {
  if (!watched.page && options_.one_run)
    watched.page.emplace(options_.folder, options_.folder.filename().string());
  if (!watched.page) {
    // Only what the search finds is a run: no name leads out of the folder.
    for (const std::filesystem::path& directory : view::find_runs(options_.folder))
      if (name_of(directory, options_.folder) == watched.name) watched.page.emplace(directory, watched.name);
  }
  return watched.page ? &*watched.page : nullptr;
}

Answer Service::metrics(const std::vector<std::shared_ptr<Watched>>& all) const {
  std::vector<std::pair<std::string, RunPage*>> pages;
  for (const auto& watched : all) {
    RunPage* const page = open(*watched);
    if (page == nullptr) continue;
    while (!page->read()) {
    }
    pages.emplace_back(watched->name, page);
  }
  return {.type = kExpositionType, .body = exposition(pages)};
}

void Service::serve(const Decision& decision, std::function<void(Answer)> answer) {
  switch (decision.verdict) {
    case Verdict::kServe:
      break;
    case Verdict::kExchange:
      // The path of the cookie is the folder of this address as the browser sees it, also behind a proxy.
      return answer({.status = 303,
                     .body = "",
                     .headers = {{"Location", "./"},
                                 {"Set-Cookie", str(options_.access.cookie, "=", options_.access.cookie_value,
                                                    "; HttpOnly; SameSite=Strict; Max-Age=604800")}}});
    case Verdict::kUnauthorized:
      if (decision.path == "/metrics")
        return answer(error_answer(401, "send the token as a bearer token (--metrics-token-file)"));
      return answer(
          error_answer(401, "open the link again that rekindle prints (rekindle status RUN --link)"));
    case Verdict::kForeignHost:
      return answer(error_answer(403, "this host name is not allowed here (--allow-host)"));
    case Verdict::kMethod:
      return answer(error_answer(405, "only GET and HEAD"));
    case Verdict::kBadRequest:
      return answer(error_answer(400, "not a request for this server"));
  }
  const Place place = place_of(decision.path);
  const std::string page = place.rest.empty() ? (place.of_board ? "board.html" : "run.html") : place.rest;
  if (const Part* part = find_part(page); part != nullptr && !part->name.ends_with(".LICENSE"))
    return answer({.type = type_of(part->name), .body = std::string(part->text)});
  // Answers that need storage.
  if (place.rest == "metrics" && (place.of_board || options_.one_run))
    return serve_metrics(std::move(answer));
  if (place.of_board && place.rest == "api/runs")
    return later(std::move(answer), [this] { return json_answer(runs_json(options_.folder)); });
  if (place.of_board || (place.rest != "api/summary" && place.rest != "api/curves"))
    return answer(error_answer(404, "nothing is here"));
  const bool of_summary = place.rest == "api/summary";
  later(std::move(answer), [this, run = watched(place.run), of_summary, query = query_of(decision)] {
    RunPage* const page = open(*run);
    if (page == nullptr) {
      asio::post(io_, [this, run] { forget(run); });
      return error_answer(404, "no such run");
    }
    // The first look at a long run takes seconds, but its state can be shown at once.
    bool complete = page->read();
    if (of_summary) return json_answer(page->summary());
    while (!complete) complete = page->read();
    const auto curves = page->curves(query);
    return curves ? json_answer(*curves) : error_answer(500, curves.error().line());
  });
}

void Service::later(std::function<void(Answer)> answer, std::function<Answer()> make) {
  if (pending_ >= kMostPending) return answer(error_answer(503, "too many requests at once: try again"));
  ++pending_;
  asio::post(storage_, [this, answer = std::move(answer), make = std::move(make)] {
    auto made = std::make_shared<Answer>(make());
    asio::post(io_, [this, answer, made] {
      --pending_;
      answer(std::move(*made));
    });
  });
}

// All runs below the folder. Each is watched from now on, so that its counters do not fall. Whoever asks
// while the answer is being made gets the same one.
void Service::serve_metrics(std::function<void(Answer)> answer) {
  if (scrapers_.size() >= kMostPending)
    return answer(error_answer(503, "too many requests at once: try again"));
  scrapers_.push_back(std::move(answer));
  if (scrapers_.size() > 1) return;
  asio::post(storage_, [this] {
    std::vector<std::string> names;
    if (options_.one_run) names.emplace_back();
    if (!options_.one_run) {
      for (const std::filesystem::path& directory : view::find_runs(options_.folder))
        names.push_back(name_of(directory, options_.folder));
    }
    asio::post(io_, [this, names = std::move(names)] {
      std::vector<std::shared_ptr<Watched>> all;
      all.reserve(names.size());
      for (const std::string& name : names) {
        all.push_back(watched(name));
        all.back()->scraped = true;
      }
      asio::post(storage_, [this, all = std::move(all)] {
        const auto made = std::make_shared<const Answer>(metrics(all));
        asio::post(io_, [this, made] {
          for (const auto& each : std::exchange(scrapers_, {})) each(*made);
        });
      });
    });
  });
}

// It is no run: nothing remains of a name that somebody made up.
void Service::forget(const std::shared_ptr<Watched>& run) {
  for (const auto& stream : run->streams) stream->close();
  std::erase_if(watched_, [&](const auto& entry) { return entry.second == run; });
}

bool Service::is_stream(const Decision& decision) const { return place_of(decision.path).rest == "api/live"; }

void Service::stream(const Decision& decision, std::shared_ptr<EventStream> stream) {
  watched(place_of(decision.path).run)->streams.push_back(std::move(stream));
}

// Each second: what is new of the runs that somebody looks at.
void Service::tick() {
  for (auto& [name, run] : watched_) {
    std::erase_if(run->streams, [](const auto& stream) { return !stream->is_open(); });
    if (!run->streams.empty() && !run->looking) look(run);
  }
  drop_unused();
  timer_.expires_after(kLook);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) tick();
  });
}

void Service::look(const std::shared_ptr<Watched>& run) {
  run->looking = true;
  run->used = Clock::now();
  asio::post(storage_, [this, run] {
    auto events = std::make_shared<std::string>();
    if (RunPage* const page = open(*run)) {
      page->read();
      *events = page->take_events();
    }
    asio::post(io_, [this, run, events, found = run->page.has_value()] {
      run->looking = false;
      if (!found) return forget(run);
      if (events->empty() && Clock::now() - run->sent < kKeepAlive) return;
      if (events->empty()) *events = ": nothing is new\n\n";
      run->sent = Clock::now();
      for (const auto& stream : run->streams) stream->send(events);
    });
  });
}

void Service::drop_unused() {
  std::erase_if(watched_, [](const auto& entry) {
    const auto& run = entry.second;
    return run->streams.empty() && !run->looking && !run->scraped && Clock::now() - run->used > kUnused;
  });
}

}  // namespace rekindle::board
