#include "app/selftest.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "app/child_run.hpp"
#include "app/cpu.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/memory_left.hpp"
#include "base/processors.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::uint64_t kFirstSteps = 20;
constexpr std::uint64_t kMoreSteps = 5;  // around each disturbance
constexpr std::uint64_t kLong = 100000;  // each run is stopped long before

class Selftest {
 public:
  Selftest(const SelftestOptions& options, fs::path work)
      : device_(options.device),
        work_(std::move(work)),
        most_(options.workers > 0 ? options.workers : std::clamp<std::uint64_t>(processors(), 2, 4)) {}

  Status run() {
    REKINDLE_CHECK(check("the package is complete, and makes data", [this] { return prepare(); }));
    REKINDLE_CHECK(check("one trainer", [this] { return extend_quiet_run(kFirstSteps); }));
    if (is_on_gpus()) note_gpus();
    for (std::uint64_t trainers = 2; trainers <= most_; ++trainers) {
      REKINDLE_CHECK(check(str(trainers, " trainers, shared memory"), [&] { return many(trainers, "shm"); }));
      REKINDLE_CHECK(check(str(trainers, " trainers, TCP"), [&] { return many(trainers, "tcp"); }));
      if (!is_on_gpus()) continue;
      REKINDLE_CHECK(check(str(trainers, " trainers, between GPUs"), [&] { return between_gpus(trainers); }));
    }
    REKINDLE_CHECK(check("a trainer is killed, the other one goes on, a new one comes", [this] {
      return disturbed("kill", 2, 2, [](RunOfRekindle& run) { return kill_a_trainer(run); });
    }));
    REKINDLE_CHECK(check("a trainer joins", [this] {
      return disturbed("join", 1, 1, [](RunOfRekindle& run) { return join(run); });
    }));
    return check("stopped, and resumed with another number of trainers",
                 [this] { return disturbed("stop", 1, 2, [](RunOfRekindle&) { return Status(); }); });
  }

  // What matters of this machine and package, and no name of a host, a user or a folder.
  void print_report() const {
    std::cout << "\n---- report, to paste ----\nrekindle " << own_build().value_or("?") << "\n";
    utsname system{};
    ::uname(&system);
    std::cout << "Linux " << system.release << ", " << system.machine << ", " << processors()
              << " processors, " << cpu_name() << "\n"
              << "memory " << format_bytes(memory_left().of) << "\n";
    if (const std::string fingerprint = trainers_fingerprint(); !fingerprint.empty())
      std::cout << "trainers: " << fingerprint << "\n";
    std::cout << lines_;
  }

 private:
  // "" before the quiet run has a checkpoint.
  std::string trainers_fingerprint() const {
    const auto ids = checkpoint::list_committed(FilePath(quiet_run()));
    if (ids.empty()) return "";
    const auto manifest =
        checkpoint::read_manifest(checkpoint::directory_of(FilePath(quiet_run()), ids.front()));
    return manifest ? manifest->fingerprint : "";
  }

  bool is_on_gpus() const {
    const auto keys = nlohmann::json::parse(trainers_fingerprint(), nullptr, false);
    return keys.is_object() && keys.value("device", "cpu") != "cpu";
  }

  void note(const std::string& line) {
    std::cout << "        " << line << std::endl;
    lines_ += str("        ", line, "\n");
  }

  void note_gpus() {
    const auto gpus =
        run_command({"nvidia-smi", "--query-gpu=index,name,memory.total,driver_version,mig.mode.current",
                     "--format=csv,noheader"},
                    std::chrono::seconds(20));
    std::istringstream lines(gpus && gpus->ok() ? gpus->out : "");
    for (std::string line; std::getline(lines, line);) note(line);
  }

  Status check(const std::string& what, const std::function<Status()>& act) {
    const auto began = steady_clock::now();
    Status status = act();
    const std::chrono::duration<double> took = steady_clock::now() - began;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f s", took.count());
    const std::string line = str(status ? "ok      " : "FAILED  ", what, ", ", seconds);
    lines_ += line + "\n";
    std::cout << line << std::endl;
    return status;
  }

  Status prepare() {
    script_ = python_package() / "_selftest.py";
    if (path_exists(program_path("rekindle-trainer"))) {
      script_.clear();
      return run_to_end({"make-data", "mnist", work_ / "data", "--samples", "500"});
    }
    return is_file(script_)
               ? Status()
               : fail(ExitCode::kConfig, "neither rekindle-trainer nor the Python package is there",
                      "install Rekindle again");
  }

  fs::path quiet_run() const { return work_ / "quiet"; }

  std::vector<std::string> training(const fs::path& dir, std::uint64_t trainers, const char* exchange,
                                    std::uint64_t steps) const {
    std::vector<std::string> words = {
        "local",  "--run-dir",        dir,        "--workers",    str(trainers), "--exchange",
        exchange, "--steps",          str(steps), "--batch-size", "32",          "--micro-batches",
        "8",      "--loader-threads", "1",        "--device",     device_};
    if (script_.empty())
      words.insert(words.end(), {"--model", "mnist-cnn", "--dataset", "mnist", "--data", work_ / "data"});
    else
      words.push_back(script_);
    return words;
  }

  // The undisturbed run of one trainer, up to a step. It never ends before, so that each check goes further.
  Status extend_quiet_run(std::uint64_t steps) {
    REKINDLE_CHECK(run_to_end(training(quiet_run(), 1, "shm", steps)));
    quiet_steps_ = steps;
    REKINDLE_TRY(digest_, digest_of(quiet_run()));
    return {};
  }

  Status many(std::uint64_t trainers, const char* exchange) const {
    const fs::path dir = work_ / str(exchange, "-", trainers);
    REKINDLE_CHECK(run_to_end(training(dir, trainers, exchange, quiet_steps_)));
    return same_digest(dir);
  }

  // By NCCL, if it can be used; the report says which way the gradients went.
  Status between_gpus(std::uint64_t trainers) {
    const fs::path dir = work_ / str("auto-", trainers);
    REKINDLE_CHECK(many(trainers, "auto"));
    REKINDLE_TRY(std::string log, read_text(run::Layout(dir).log("coordinator")));
    constexpr std::string_view kWay = "gradients go ";
    if (const std::size_t begin = log.find(kWay); begin != std::string::npos) {
      std::string way = log.substr(begin, log.find('\n', begin) - begin);
      if (const std::size_t host = way.find(host_name()); host != std::string::npos)
        way.replace(host, host_name().size(), "this machine");
      note(way);
    }
    return {};
  }

  Status same_digest(const fs::path& dir) const {
    REKINDLE_TRY(const std::string digest, digest_of(dir));
    if (digest == digest_) return {};
    return fail(ExitCode::kGaveUp,
                str("the weights are not those of the undisturbed run: ", digest, " in place of ", digest_),
                "please report this: it is a bug, or faulty hardware");
  }

  Status disturbed(const char* name, std::uint64_t before, std::uint64_t after,
                   const std::function<Status(RunOfRekindle& run)>& act) {
    const fs::path dir = work_ / name;
    REKINDLE_TRY(const auto run, RunOfRekindle::start(dir, training(dir, before, "auto", kLong)));
    REKINDLE_CHECK(run->wait_for_step(quiet_steps_ + kMoreSteps));
    REKINDLE_CHECK(act(*run));
    REKINDLE_TRY(const std::uint64_t step, run->step());
    REKINDLE_CHECK(run->wait_for_step(step + kMoreSteps));
    REKINDLE_CHECK(run->stop());
    REKINDLE_TRY(const std::uint64_t saved, run->step());
    REKINDLE_CHECK(run_to_end(training(dir, after, "tcp", saved + kMoreSteps)));
    REKINDLE_CHECK(extend_quiet_run(saved + kMoreSteps));
    return same_digest(dir);
  }

  static Status kill_a_trainer(RunOfRekindle& run) {
    REKINDLE_TRY(const std::vector<pid_t> trainers, run.trainers());
    if (trainers.empty()) return fail("the run has no trainers");
    ::kill(trainers.back(), SIGKILL);
    return run.wait([&]() -> Result<bool> {
      REKINDLE_TRY(const std::vector<pid_t> now, run.trainers());
      return now.size() == trainers.size() && std::ranges::find(now, trainers.back()) == now.end();
    });
  }

  static Status join(RunOfRekindle& run) {
    REKINDLE_TRY(const std::vector<pid_t> before, run.trainers());
    REKINDLE_CHECK(run.add_helper());
    return run.wait([&]() -> Result<bool> {
      REKINDLE_TRY(const std::vector<pid_t> now, run.trainers());
      return now.size() > before.size();
    });
  }

  const std::string device_;
  const fs::path work_;
  const std::uint64_t most_;
  fs::path script_;  // in place of a model, where there is no rekindle-trainer
  std::uint64_t quiet_steps_ = 0;
  std::string digest_;  // of the quiet run
  std::string lines_;   // the report's
};

Result<fs::path> folder_for(const SelftestOptions& options) {
  if (!options.keep.empty()) {
    REKINDLE_TRY(const auto names, names_in(FilePath(options.keep)));
    if (!names.empty())
      return fail(ExitCode::kUsage, str("--keep ", options.keep.string(), " is not empty"),
                  "give a new folder");
    REKINDLE_CHECK(make_directories(FilePath(options.keep), 0700));
    return fs::absolute(options.keep);
  }
  std::string name = (fs::temp_directory_path() / "rekindle-selftest-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return fail(ExitCode::kConfig, str(name, " cannot be made"),
                "set TMPDIR to a folder that can be written");
  return fs::path(name);
}

}  // namespace

int run_selftest(const SelftestOptions& options) {
  const auto work = folder_for(options);
  if (!work) return report(work.error());
  const EndOnSignal interruptible([&](int signal) {
    kill_all_runs(options.keep.empty() ? *work : fs::path());
    return usual_exit_code(signal);
  });
  const auto began = steady_clock::now();
  Selftest selftest(options, *work);
  const Status status = selftest.run();
  selftest.print_report();
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - began);
  if (!status) {
    std::cout << "FAILED: " << status.error().line() << "\n" << std::flush;
    Error error = status.error();
    error.code = error.code == ExitCode::kUsage ? error.code : ExitCode::kGaveUp;
    say(str("the runs are in ", work->string()));
    return report(error);
  }
  std::cout << "every check has passed, in " << took.count() << " s\n" << std::flush;
  if (options.keep.empty()) std::ignore = remove_tree(FilePath(*work));
  return 0;
}

}  // namespace rekindle::app
