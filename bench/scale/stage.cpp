#include "stage.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "app/run_config.hpp"
#include "base/text.hpp"
#include "node.hpp"
#include "protocol/wire.hpp"

namespace rekindle::bench {

using namespace protocol;

namespace {

constexpr std::int64_t kLimitNs = 120'000'000'000;
constexpr int kTurnMs = 20, kShownWarnings = 5;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench_scale: %s\n", what.c_str());
  std::exit(70);
}

template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.error().line());
  return std::move(*result);
}

// A run that never ends and needs no data.
Job job_of(int workers, int trainers) {
  Job job;
  job.steps = 1'000'000'000;
  job.micro_batches = job.batch_size =
      static_cast<std::uint64_t>(workers) * static_cast<std::uint64_t>(trainers);
  job.train_samples = 1'000'000'000;
  job.trainers_per_worker = static_cast<std::uint64_t>(trainers);
  return job;
}

}  // namespace

Usage usage_of(int pid) {
  Usage usage;
  std::ifstream stat(str("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; fields >> field && i <= 20; ++i) {
    if (i == 14 || i == 15)
      usage.cpu_seconds += std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    if (i == 20) usage.threads = std::stoi(field);
  }
  std::ifstream status(str("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) usage.rss_mib = std::stod(line.substr(6)) / 1024;
    if (line.rfind("VmHWM:", 0) == 0) usage.peak_rss_mib = std::stod(line.substr(6)) / 1024;
  }
  return usage;
}

Stage::Stage(run::Layout layout, int workers, int trainers)
    : layout_(std::move(layout)),
      workers_(workers),
      trainers_(trainers),
      control_(own_executable().parent_path() / "rekindle-control"),
      build_(need(app::build_of(control_))) {}

Stage::~Stage() {
  for (Process& process : nodes_) kill(process);
  kill(coordinator_);
}

Stage::Process Stage::start(const std::vector<std::string>& argv) {
  auto ends = need(Channel::pair());
  Child child = need(spawn(argv, {}, {{ends.second.get()}}));
  return {std::move(child), std::make_unique<Channel>(std::move(ends.first)), {}};
}

void Stage::kill(Process& process) {
  if (process.child.pid <= 0) return;
  kill_child(process.child, SIGKILL);
  ::rekindle::wait_for(process.child);
  process = {};
}

void Stage::start_coordinator(bool again) {
  const std::uint64_t old_term = term_;
  coordinator_ = start({control_, "coordinator", "--run-dir", layout_.root().string(), "--trainers",
                        str(workers_ * trainers_), "--attempt", str(again ? attempt_ : 0), "--job",
                        nlohmann::json(job_of(workers_, trainers_)).dump()});
  for (const std::int64_t until = now_ns() + kLimitNs; term_ == old_term; turn()) {
    if (now_ns() > until) give_up("no coordinator came up");
  }
}

void Stage::start_nodes(int first, int nodes) {
  nodes_.push_back(
      start({own_executable(), "nodes", "--run-dir", layout_.root().string(), "--first", str(first),
             "--nodes", str(nodes), "--trainers", str(trainers_), "--term", str(term_), "--build", build_}));
}

std::int64_t Stage::kill_last_nodes() {
  const std::int64_t at = now_ns();
  kill(nodes_.back());
  nodes_.pop_back();
  return at;
}

std::int64_t Stage::kill_coordinator() {
  const std::int64_t at = now_ns();
  kill(coordinator_);
  lines_.clear();
  return at;
}

void Stage::read_coordinator() {
  auto text = coordinator_.channel->receive();
  if (!text || !*text) give_up(str("the coordinator ended: see ", layout_.log("coordinator").string()));
  const auto message = need(decode<ToSupervisor>(**text));
  if (const auto* up = std::get_if<CoordinatorUp>(&message)) {
    term_ = up->term;
    attempt_ = up->attempt;
  }
  const auto* say = std::get_if<Say>(&message);
  if (say == nullptr) return;
  lines_.emplace_back(now_ns(), say->line);
  if (say->line.rfind("warning", 0) == 0 && ++warnings_ <= kShownWarnings)
    std::printf("  | %s\n", say->line.c_str());
}

void Stage::turn() {
  std::vector<pollfd> waits{{coordinator_.channel ? coordinator_.channel->fd() : -1, POLLIN, 0}};
  for (const Process& process : nodes_) waits.push_back({process.channel->fd(), POLLIN, 0});
  if (::poll(waits.data(), waits.size(), kTurnMs) <= 0) return;
  if (waits[0].revents != 0) read_coordinator();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (waits[1 + i].revents == 0) continue;
    auto text = nodes_[i].channel->receive();
    if (!text || !*text) give_up("a node process ended");
    nodes_[i].milestones.push_back(nlohmann::json::parse(**text).get<Milestone>());
  }
}

std::int64_t Stage::wait_for(const std::string& what, std::int64_t since_ns, std::string* generation) {
  for (const std::int64_t until = now_ns() + kLimitNs; now_ns() < until; turn()) {
    std::map<std::string, std::pair<std::size_t, std::int64_t>> seen;  // by generation: count, last time
    for (const Process& process : nodes_) {
      for (const Milestone& milestone : process.milestones) {
        if (milestone.what != what || milestone.at_ns < since_ns) continue;
        auto& [count, last] = seen[milestone.generation];
        ++count;
        last = std::max(last, milestone.at_ns);
      }
    }
    for (const auto& [id, found] : seen) {
      if (found.first != nodes_.size()) continue;
      if (generation != nullptr) *generation = id;
      return found.second;
    }
  }
  give_up(str("not all nodes are \"", what, "\" after two minutes"));
}

std::int64_t Stage::wait_for_line(const std::string& words) {
  for (const std::int64_t until = now_ns() + kLimitNs; now_ns() < until; turn()) {
    for (const auto& [at, line] : lines_) {
      if (line.find(words) != std::string::npos) return at;
    }
  }
  give_up(str("the coordinator has not logged \"", words, "\" for two minutes"));
}

void Stage::wait_for_trainers(std::size_t count) {
  for (const std::int64_t until = now_ns() + kLimitNs; now_ns() < until; turn()) {
    std::ifstream file(layout_.status().path());
    const auto status = nlohmann::json::parse(file, nullptr, false);
    if (status.is_object() && status.at("trainers").size() == count) return;
  }
  give_up(str("not ", count, " trainers after two minutes"));
}

void Stage::pass(double seconds) {
  const auto until = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  while (now_ns() < until) turn();
}

}  // namespace rekindle::bench
