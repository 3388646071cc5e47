#include "app/dry_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/banner.hpp"
#include "app/child_run.hpp"
#include "app/places.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/memory_left.hpp"
#include "base/network.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// It ends after so many steps, or after the first one that is complete when this time is over.
constexpr std::uint64_t kMostSteps = 20;
constexpr std::chrono::seconds kEnough{5};
constexpr std::chrono::minutes kPatience{120};  // for a step

struct Measured {
  std::uint64_t steps = 0, trainers = 0;
  double step_ms = 0;                  // the median, without the first step if there are others
  std::uint64_t memory = 0, most = 0;  // bytes of all trainers, and of the largest
  std::uint64_t gpu = 0, gpu_of = 0;   // bytes of the GPU that is fullest
  milliseconds stop{0};                // from the signal to the end
};

Result<fs::path> make_scratch(const fs::path& storage) {
  std::string name = storage / ".rekindle-dry-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    return fail(ExitCode::kConfig, str("nothing can be written in ", storage.string()),
                "use a --run-dir that can be written");
  return fs::path(name);
}

// The median, and the number of trainers.
Result<double> read_steps(const fs::path& run_dir, std::uint64_t& trainers) {
  REKINDLE_TRY(const std::string text, read_text(run::Layout(run_dir).metrics()));
  std::istringstream lines(text);
  std::vector<double> times;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step_ms") || !json["step_ms"].is_number()) continue;
    times.push_back(json["step_ms"].get<double>());
    trainers = std::max(trainers, json.value("trainers", std::uint64_t{0}));
  }
  if (times.size() > 1) times.erase(times.begin());  // it also makes caches and buffers
  if (times.empty()) return fail("the run has measured no step");
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// At the end of a run some trainers have left already: the status with the most memory counts.
void measure_memory(const nlohmann::json& status, Measured& best) {
  constexpr std::uint64_t kNone = 0;
  Measured measured;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array())) {
    const std::uint64_t bytes =
        std::max(trainer.value("peak_pss_bytes", kNone), trainer.value("memory_bytes", kNone));
    measured.memory += bytes;
    measured.most = std::max(measured.most, bytes);
    if (const auto used = trainer.value("gpu_used_bytes", kNone); used > measured.gpu) {
      measured.gpu = used;
      measured.gpu_of = trainer.value("gpu_total_bytes", kNone);
    }
  }
  if (measured.memory < best.memory) return;
  best.memory = measured.memory;
  best.most = measured.most;
  best.gpu = measured.gpu;
  best.gpu_of = measured.gpu_of;
}

// Makes the steps with the same command line, in `run_dir`.
Result<Measured> try_steps(const fs::path& run_dir, const LocalOptions& options,
                           const std::vector<std::string>& as_given) {
  std::vector<std::string> command = {as_given.at(1), "--dry-run-in", run_dir};
  if (options.job.task.skip_corrupt) command.emplace_back("--skip-corrupt");  // a resume need not repeat it
  command.insert(command.end(), as_given.begin() + 2, as_given.end());
  REKINDLE_TRY(const auto run, RunOfRekindle::start(run_dir, command, options.own_trainer));
  Measured measured;
  steady_clock::time_point first;
  REKINDLE_CHECK(run->wait(
      [&]() -> Result<bool> {
        REKINDLE_TRY(const nlohmann::json status, run->status());
        measured.steps = status.value("step", std::uint64_t{0});
        measure_memory(status, measured);
        if (measured.steps == 0) return false;
        if (first == steady_clock::time_point()) first = steady_clock::now();
        return measured.steps >= std::min(kMostSteps, status.value("steps", kMostSteps)) ||
               steady_clock::now() - first > kEnough;
      },
      kPatience));
  const auto begin = steady_clock::now();
  REKINDLE_CHECK(run->stop());
  measured.stop = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  REKINDLE_TRY(const nlohmann::json status, run->status());
  measured.steps = status.value("step", measured.steps);
  measure_memory(status, measured);
  REKINDLE_TRY(measured.step_ms, read_steps(run_dir, measured.trainers));
  REKINDLE_CHECK(digest_of(run_dir));  // reads every byte of the checkpoint
  return measured;
}

std::string time_text(const LocalOptions& options, const Measured& measured) {
  const protocol::Job& job = options.job;
  const std::uint64_t done = std::min(saved_step(options.layout()), job.steps), left = job.steps - done;
  const double seconds = measured.step_ms / 1000;
  std::ostringstream text;
  text.precision(3);
  text << "time       " << seconds << " s a step, " << static_cast<double>(job.batch_size) / seconds << " "
       << word_for_sample(job)
       << "s/s: " << (done > 0 ? str("the ", left, " steps that are left") : counted(left, "step"))
       << (left == 1 ? " takes about " : " take about ")
       << format_duration(
              milliseconds(static_cast<std::int64_t>(measured.step_ms * static_cast<double>(left))));
  if (job.test_samples > 0) text << ", and the evaluations besides";
  return text.str();
}

std::string memory_text(const Measured& measured, const MemoryLeft& left) {
  std::string text =
      str("memory     ", format_bytes(measured.most), " a trainer at most, ", format_bytes(measured.memory),
          " together; ", format_bytes(left.bytes), " of ", format_bytes(left.of), " are free");
  if (measured.gpu > 0)
    text +=
        str("\nGPU memory ", format_bytes(measured.gpu), " of ", format_bytes(measured.gpu_of), " in use");
  return text;
}

// The most checkpoints that are there at once: one is being written, and the run has gone on from one.
std::uint64_t checkpoints_of(const protocol::Job& job) { return job.keep + 2 + (job.keep_best ? 1 : 0); }

struct Storage {
  std::uint64_t needed = 0;
  std::optional<std::uint64_t> free = {};
};

// The checkpoints that the run has count as room, because new ones take their place; but those of the dry run
// come on top.
Result<Storage> check_storage(const LocalOptions& options, const fs::path& folder) {
  Storage storage{.needed = checkpoints_of(options.job) * options.state_bytes};
  std::error_code problem;
  if (const fs::space_info space = fs::space(folder, problem); !problem) storage.free = space.available;
  const std::uint64_t has = options.state_bytes * checkpoint::list_committed(options.layout().root()).size();
  if (storage.free && storage.needed > has + *storage.free)
    return fail(ExitCode::kConfig,
                str("the checkpoints need ", format_bytes(storage.needed), ", and ", folder.string(), " has ",
                    format_bytes(*storage.free)),
                "use a smaller --keep, or storage with more room");
  if (storage.free && *storage.free < 2 * options.state_bytes)
    return fail(ExitCode::kConfig,
                str("a dry run writes a checkpoint of ", format_bytes(options.state_bytes), ", and ",
                    folder.string(), " has ", format_bytes(*storage.free)),
                "make room");
  return storage;
}

std::string storage_text(const LocalOptions& options, const Storage& storage) {
  return str("storage    ", format_bytes(options.state_bytes), " a checkpoint, at most ",
             checkpoints_of(options.job), " of them (--keep ", options.job.keep,
             "): ", format_bytes(storage.needed),
             storage.free ? str("; ", format_bytes(*storage.free), " are free") : "");
}

void warn_of_ports(const WatcherOptions& watchers) {
  const auto check = [](const char* option, const std::string& address, std::uint16_t port) {
    const std::string asked = address == "0.0.0.0" ? "127.0.0.1" : address;
    if (port > 0 && reachable(asked, port))
      say(str("warning: another program listens at port ", port, " of ", option));
  };
  if (watchers.status_port)
    check("--status-port", watchers.status_bind, static_cast<std::uint16_t>(*watchers.status_port));
  if (watchers.metrics_bind.empty()) return;
  if (const auto bind = parse_bind("--metrics-bind", watchers.metrics_bind))
    check("--metrics-bind", bind->address, bind->port);
}

// What a run warns of at its start, such as too many trainers for the machine.
void say_warnings(const fs::path& log) {
  constexpr std::string_view kWarning = "warning: ";
  std::istringstream lines(read_text(FilePath(log)).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(kWarning);
    if (at == 0 || line.substr(0, at) == "rekindle: ") say(line.substr(at));
  }
}

void say_what_it_takes(const LocalOptions& options, const Measured& measured, const Storage& storage,
                       const MemoryLeft& memory) {
  say(str("dry run    ", counted(measured.steps, "step"), " with ", counted(measured.trainers, "trainer"),
          " and a checkpoint were made, read, and removed"));
  say(time_text(options, measured));
  say_lines(memory_text(measured, memory));
  say(storage_text(options, storage));
  say(str("stopping   ", format_duration(std::max(measured.stop, milliseconds(1000))),
          " from a signal to the end: finish a step, save"));
  warn_of_ports(options.watchers);
  constexpr std::uint64_t kMostPercent = 90;
  if (memory.bytes > 0 && measured.memory > memory.bytes / 100 * kMostPercent)
    say("warning: the trainers need nearly all memory that is free");
}

}  // namespace

int dry_run(const LocalOptions& options, const std::vector<std::string>& as_given) {
  const fs::path folder = existing_part(options.run_dir);
  const auto storage = check_storage(options, folder);
  if (!storage) return report(storage.error());
  const auto scratch = make_scratch(folder);
  if (!scratch) return report(scratch.error());
  const MemoryLeft memory = memory_left();
  const EndOnSignal interruptible([&](int signal) {
    kill_all_runs(*scratch);
    return usual_exit_code(signal);
  });
  say_lines(banner(options, options.workers));
  say(str("it is tried in ", scratch->string()));
  const auto measured = try_steps(*scratch / "run", options, as_given);
  if (!measured) {
    // Only the logs stay.
    for (const std::string& name : names_in(FilePath(*scratch / "run")).value_or(std::vector<std::string>()))
      if (name != "logs") std::ignore = remove_tree(FilePath(*scratch / "run" / name));
    say(str("its logs are in ", scratch->string(), ", which you may delete"));
    return report(measured.error());
  }
  say_warnings(*scratch / "run.log");
  if (!remove_after_run(*scratch)) say(str("warning: ", scratch->string(), " could not be removed"));
  say_what_it_takes(options, *measured, *storage, memory);
  return 0;
}

}  // namespace rekindle::app
