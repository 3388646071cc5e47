// Any bytes as a run.toml: an error, or a job that is read back as it is written.
#include <cstdint>
#include <string>

#include "app/run_config.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rekindle;
  const auto job = app::parse_job(std::string(reinterpret_cast<const char*>(data), size), "run.toml");
  if (!job) return 0;
  require(job->batch_size > 0 && job->lr_step > 0, "a schedule divides by zero");
  std::ignore = protocol::epoch_of(*job, 5);
  const auto again = app::parse_job(app::to_toml(*job), "run.toml");
  require(again.has_value(), "it is refused when it is written again");
  return 0;
}
