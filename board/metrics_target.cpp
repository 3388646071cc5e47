#include "board/metrics_target.hpp"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "board/json_text.hpp"

namespace rekindle::board {
namespace {

constexpr unsigned kReadable = 0644;
constexpr std::size_t kMostBytes = 65536;

// Runs of the same name in other folders have other files.
std::string file_name(const std::filesystem::path& folder) {
  const std::string whole = folder.string();
  return str("rekindle-", hex64(hash64(std::as_bytes(std::span(whole)))), ".json");
}

// The default run directory of a script is called "run" in the folder of each trial.
std::string name_of_run(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string(), above = folder.parent_path().filename().string();
  return name == "run" && !above.empty() ? str(above, "/", name) : name;
}

}  // namespace

std::string target_text(const MetricsPlace& place, const std::string& job) {
  const std::string host = place.address == "0.0.0.0" || place.address == "::" ? host_name()
                           : place.address.find(':') != std::string::npos      ? str("[", place.address, "]")
                                                                               : place.address;
  nlohmann::json target = {{"targets", {str(host, ":", place.port)}}, {"labels", nlohmann::json::object()}};
  if (place.one_run) {
    target["labels"]["run"] = name_of_run(place.folder);
    if (!job.empty()) target["labels"]["slurm_job_id"] = job;
  }
  return json_text(nlohmann::json::array({target})) + "\n";
}

MetricsTarget::MetricsTarget(const std::filesystem::path& directory, const MetricsPlace& place)
    : file_(FilePath(directory) / file_name(place.folder)),
      text_(target_text(place, environment_variable("SLURM_JOB_ID"))) {}

Status MetricsTarget::write() const {
  // Prometheus is another user, whatever the umask says. No other thread makes files at the same time.
  const mode_t before = ::umask(0);
  Status written = replace_file(file_, text_, kReadable);
  ::umask(before);
  return written;
}

MetricsTarget::~MetricsTarget() {
  // The run's next attempt may have begun.
  if (read_text(file_, kMostBytes).value_or("") == text_) std::ignore = remove_file(file_);
}

}  // namespace rekindle::board
