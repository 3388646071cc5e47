// Commands and runs of `rekindle` as child processes, for the self-test and for --dry-run.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// Runs a command of `rekindle` to its end. Errors: another exit code than 0, with the last line that it
// printed.
Status run_to_end(const std::vector<std::string>& command);
Result<std::string> digest_of(const std::filesystem::path& run_dir);

// `rekindle local` in the background, with its helper. They end with this object.
class RunOfRekindle {
 public:
  // `own_trainer`: as in LocalOptions.
  static Result<std::unique_ptr<RunOfRekindle>> start(const std::filesystem::path& run_dir,
                                                      const std::vector<std::string>& command,
                                                      const std::filesystem::path& own_trainer = {});
  ~RunOfRekindle();
  RunOfRekindle(const RunOfRekindle&) = delete;

  Result<nlohmann::json> status() const;        // of `rekindle status --json`; {}: the run has not begun
  Result<std::uint64_t> step() const;           // the newest; 0: none yet
  Result<std::vector<pid_t>> trainers() const;  // of the generation, by rank
  Status add_helper();                          // `rekindle join` with one trainer
  // Waits until `holds`. Errors: the run ends (with its exit code); it does not hold within the limit.
  Status wait(const std::function<Result<bool>()>& holds,
              std::chrono::minutes limit = std::chrono::minutes(10));
  Status wait_for_step(std::uint64_t step);
  Status stop();  // by SIGUSR1, and waits for the end; it may have finished before

 private:
  explicit RunOfRekindle(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {}
  Result<Child> spawn_logged(const std::vector<std::string>& command, const char* name,
                             const std::filesystem::path& own_trainer = {}) const;
  std::string last_line() const;

  const std::filesystem::path run_dir_;
  Child run_, helper_;
};

// Removes the folder of a run that has ended: its last processes may still write there. False: it is left.
bool remove_after_run(const std::filesystem::path& folder);

// Ends the processes of every RunOfRekindle, and removes a folder with their directories (empty: none). For a
// process that exits without destructors; from any thread.
void kill_all_runs(const std::filesystem::path& folder);

}  // namespace rekindle::app
