#include "board/service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <deque>
#include <utility>

#include "board/answers.hpp"
#include "board/exposition.hpp"
#include "board/parts.hpp"
#include "board/run_page.hpp"
#include "board/turns.hpp"
#include "view/runs.hpp"

namespace rekindle::board {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLook{1}, kUnused{600}, kKeepAlive{15};
constexpr std::string_view kRun = "/run/";
constexpr std::size_t kMostPending = 64;  // answers that wait for storage

// After what began then and has just ended: it gets a tenth of the time, at most.
Clock::time_point next_look(Clock::time_point begin) {
  constexpr std::chrono::seconds kLeast{1};
  const auto end = Clock::now();
  return end + std::max<Clock::duration>(kLeast, 10 * (end - begin));
}

}  // namespace

const std::vector<std::filesystem::path>& Finder::runs() {
  const auto begin = Clock::now();
  if (begin < again_) return found_;
  found_ = view::find_all_runs(folder_).runs;
  again_ = next_look(begin);
  return found_;
}

struct Service::Watched {
  explicit Watched(std::string of) : name(std::move(of)) {}
  std::string name;             // below the folder; "": the folder is the run
  std::optional<RunPage> page;  // used in the storage's thread; without a value: there is no such run
  // The rest is used in the server's thread.
  std::vector<std::shared_ptr<EventStream>> streams;
  Clock::time_point used = Clock::now(), sent = Clock::now();
  bool looking = false;  // a reading for the streams is under way
  bool scraped = false;  // its counters must not fall
  bool behind = false;   // there is more to read than a slice; used in the storage's thread
};

Service::Service(asio::io_context& io, ServiceOptions options)
    : io_(io), options_(std::move(options)), finder_(options_.folder), timer_(io), storage_(1) {
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
RunPage* Service::open(Watched& watched) {
  if (!watched.page && options_.one_run)
    watched.page.emplace(options_.folder, options_.folder.filename().string());
  if (!watched.page) {
    // Only what the search finds is a run: no name leads out of the folder.
    for (const std::filesystem::path& directory : finder_.runs())
      if (name_of(directory, options_.folder) == watched.name) watched.page.emplace(directory, watched.name);
  }
  return watched.page ? &*watched.page : nullptr;
}

void Service::serve(const Decision& decision, std::function<void(Answer)> answer) {
  if (decision.verdict != Verdict::kServe) return answer(answer_without_page(decision, options_.access));
  const Place place = place_of(decision.path);
  const std::string page = place.rest.empty() ? (place.of_board ? "board.html" : "run.html") : place.rest;
  if (const Part* part = find_part(page); part != nullptr && !part->name.ends_with(".LICENSE"))
    return answer({.type = type_of(part->name), .body = std::string(part->text)});
  // Answers that need storage.
  if (place.rest == "metrics" && (place.of_board || options_.one_run))
    return serve_metrics(decision.known, std::move(answer));
  if (place.of_board && place.rest == "api/runs")
    return later(std::move(answer), [this] { return runs_answer(); });
  if (place.of_board || (place.rest != "api/summary" && place.rest != "api/curves"))
    return answer(error_answer(404, "nothing is here"));
  const auto run = watched(place.run);
  if (place.rest == "api/summary")
    return later(std::move(answer), [this, run] {
      RunPage* const opened = open_or_forget(run);
      if (opened == nullptr) return error_answer(404, "no such run");
      opened->read();  // the first look at a long run takes seconds, but its state can be shown at once
      return json_answer(opened->summary());
    });
  in_parts(std::move(answer), [this, run, query = query_of(decision)]() -> std::optional<Answer> {
    RunPage* const opened = open_or_forget(run);
    if (opened == nullptr) return error_answer(404, "no such run");
    if (!opened->read(RunPage::Amount::kSlice)) return std::nullopt;
    const auto curves = opened->curves(query);
    return curves ? json_answer(*curves) : error_answer(500, curves.error().line());
  });
}

// In the storage's thread. With hundreds of runs on slow storage it takes seconds, for each open list.
Answer Service::runs_answer() {
  const auto begin = Clock::now();
  if (begin < runs_again_) return newest_runs_;
  newest_runs_ = json_answer(runs_json(finder_.runs(), options_.folder));
  runs_again_ = next_look(begin);
  return newest_runs_;
}

void Service::later(std::function<void(Answer)> answer, std::function<Answer()> make) {
  in_parts(std::move(answer), [make = std::move(make)] { return std::optional(make()); });
}

void Service::in_parts(std::function<void(Answer)> answer, std::function<std::optional<Answer>()> make) {
  if (pending_ >= kMostPending) return answer(error_answer(503, "too many requests at once: try again"));
  ++pending_;
  const auto made = std::make_shared<std::optional<Answer>>();
  const Turn turn = [made, make = std::move(make)] { return (*made = make()).has_value(); };
  take_turns(storage_.get_executor(), {turn}, [this, answer = std::move(answer), made] {
    asio::post(io_, [this, answer, made] {
      --pending_;
      answer(std::move(**made));
    });
  });
}

// All runs below the folder. Each is watched from now on, so that its counters do not fall. Whoever asks
// while the answer is being made gets the same one; a stranger (--metrics-open) also within a second after
// it.
void Service::serve_metrics(bool known, std::function<void(Answer)> answer) {
  if (!known && newest_scrape_ && Clock::now() < scrape_again_) return answer(*newest_scrape_);
  if (scrapers_.size() >= kMostPending)
    return answer(error_answer(503, "too many requests at once: try again"));
  scrapers_.push_back(std::move(answer));
  if (scrapers_.size() > 1) return;
  asio::post(storage_, [this] {
    std::vector<std::filesystem::path> found = {options_.folder};
    if (!options_.one_run) found = finder_.runs();
    asio::post(io_, [this, found = std::move(found)] { scrape(found); });
  });
}

// Prometheus waits 10 s, and the first reading of a long run takes seconds: here each run is read for one
// slice only. A run that has not been read completely yet is left out of this answer, and is read after it.
void Service::scrape(const std::vector<std::filesystem::path>& found) {
  std::vector<std::shared_ptr<Watched>> all;
  std::deque<Turn> parts;
  // A run that is there no longer keeps nothing.
  if (!found.empty())  // or the storage is away
    for (auto& [name, run] : watched_) run->scraped = false;
  for (const std::filesystem::path& directory : found) {
    const auto run = watched(options_.one_run ? "" : name_of(directory, options_.folder));
    run->scraped = true;
    all.push_back(run);
    parts.emplace_back([run, directory] {
      if (!run->page)
        run->page.emplace(directory, run->name.empty() ? directory.filename().string() : run->name);
      run->behind = !run->page->read(RunPage::Amount::kSlice);
      return true;
    });
  }
  take_turns(storage_.get_executor(), std::move(parts), [this, all = std::move(all)] {
    std::vector<std::pair<std::string, RunPage*>> pages;
    std::vector<std::shared_ptr<Watched>> unread;
    for (const auto& run : all) {
      if (run->page->complete()) pages.emplace_back(run->name, &*run->page);
      if (run->behind) unread.push_back(run);  // also after a rewind, when all steps are read anew
    }
    const auto made =
        std::make_shared<const Answer>(Answer{.type = kExpositionType, .body = exposition(pages)});
    asio::post(io_, [this, made, unread = std::move(unread)] {
      newest_scrape_ = made;
      scrape_again_ = Clock::now() + kLook;
      for (const auto& each : std::exchange(scrapers_, {})) each(*made);
      read_rest(unread);
    });
  });
}

void Service::read_rest(const std::vector<std::shared_ptr<Watched>>& unread) {
  if (unread.empty() || std::exchange(reading_rest_, true)) return;
  std::deque<Turn> parts;
  for (const auto& run : unread)
    parts.emplace_back([run] { return run->page->read(RunPage::Amount::kSlice); });
  take_turns(storage_.get_executor(), std::move(parts),
             [this] { asio::post(io_, [this] { reading_rest_ = false; }); });
}

RunPage* Service::open_or_forget(const std::shared_ptr<Watched>& run) {
  RunPage* const page = open(*run);
  if (page == nullptr) asio::post(io_, [this, run] { forget(run); });
  return page;
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
