// The pages of one run, or of all runs below a folder: what each address answers (docs/board.md). Storage is
// read in a thread of its own, so that a slow disk does not stop the server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "board/run_page.hpp"
#include "board/server.hpp"

namespace rekindle::board {

struct ServiceOptions {
  std::filesystem::path folder;  // a run directory, or a folder with runs
  bool one_run = true;
  AccessRules access;
};

// The runs below a folder, searched for again when the last search is older than ten times what it took, at
// least a second: a large folder takes the time that is for reading runs.
class Finder {
 public:
  explicit Finder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const std::vector<std::filesystem::path>& runs();

 private:
  using Clock = std::chrono::steady_clock;
  const std::filesystem::path folder_;
  std::vector<std::filesystem::path> found_;
  Clock::time_point again_{};
};

class Service : public Site {
 public:
  Service(boost::asio::io_context& io, ServiceOptions options);
  ~Service() override;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  Decision decide(const Request& request) const override;
  void serve(const Decision& decision, std::function<void(Answer)> answer) override;
  bool is_stream(const Decision& decision) const override;
  void stream(const Decision& decision, std::shared_ptr<EventStream> stream) override;

 private:
  struct Watched;
  // Where an address leads: a run (its name below the folder; "" if there is one run) and what of it.
  struct Place {
    std::string run, rest;
    bool of_board = false;
  };
  Place place_of(const std::string& path) const;
  std::shared_ptr<Watched> watched(const std::string& name);
  RunPage* open(Watched& watched);
  RunPage* open_or_forget(const std::shared_ptr<Watched>& run);
  Answer runs_answer();
  // The answer that `make` gives, in the storage's thread.
  void later(std::function<void(Answer)> answer, std::function<Answer()> make);
  // The same, for what takes long: `make` is called again, after the work of others, until it has an answer.
  void in_parts(std::function<void(Answer)> answer, std::function<std::optional<Answer>()> make);
  void serve_metrics(bool known, std::function<void(Answer)> answer);
  void scrape(const std::vector<std::filesystem::path>& found);
  void read_rest(const std::vector<std::shared_ptr<Watched>>& unread);
  void forget(const std::shared_ptr<Watched>& run);
  void tick();
  void look(const std::shared_ptr<Watched>& run);
  void drop_unused();

  boost::asio::io_context& io_;
  const ServiceOptions options_;
  Finder finder_;       // used in the storage's thread, with the next two
  Answer newest_runs_;  // of api/runs
  std::chrono::steady_clock::time_point runs_again_{};
  std::map<std::string, std::shared_ptr<Watched>> watched_;  // used in the server's thread
  std::vector<std::function<void(Answer)>> scrapers_;        // wait for the answer that is being made
  std::shared_ptr<const Answer> newest_scrape_;
  std::chrono::steady_clock::time_point scrape_again_{};
  bool reading_rest_ = false;  // of runs that /metrics left out
  std::size_t pending_ = 0;    // answers that wait for storage
  boost::asio::steady_timer timer_;
  boost::asio::thread_pool storage_;  // one thread; last, because its work uses the above
};

}  // namespace rekindle::board
