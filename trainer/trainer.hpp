// One replica: runs generations one after the other, until Quit. Clock, files, threads and sockets all come
// as Parts, so that tests/sim runs the same code in virtual time.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "protocol/messages.hpp"
#include "trainer/numeric_check.hpp"
#include "trainer/step_loop.hpp"

namespace rekindle::trainer {

class Trainer {
 public:
  explicit Trainer(const Parts& parts)
      : parts_(parts), kept_{.samples = SampleWait(std::chrono::milliseconds(parts.job.data_wait_ms))} {}

  // Runs the numeric handshake and loads the initial tensors, then sends `ready`, completed with the results.
  // `build` identifies the program.
  Status warm_up(protocol::TrainerReady ready, const std::string& build);
  // Enters generations until Quit. Returns an error if this trainer cannot continue.
  Status run_until_quit();

  const protocol::ReplicaState& replica() const { return kept_.replica; }

 private:
  Result<NumericCheck> numeric_check(std::span<float> gradient);
  Result<NumericCheck> checked_numerics(const std::string& host);
  TestSamples tests_to_try() const;
  Error of_the_model(Error error) const;
  Status load_initial();
  Status begin_anew();
  protocol::Paused run(const protocol::Start& start);
  protocol::Paused run_in(const protocol::Start& start, exchange::Exchange& exchange);
  // Brings the state to the step from which the generation starts. Returns the reason if that fails.
  std::optional<protocol::Paused> reach(const protocol::Start& start, exchange::Exchange& exchange);
  Status restore_or_begin(const protocol::Start& start, exchange::Exchange& exchange);
  protocol::Paused paused(const protocol::Start& start, protocol::PauseReason reason, const std::string& why);
  protocol::Paused paused(const protocol::Start& start, const Error& error, protocol::PauseReason reason);

  const Parts parts_;
  Kept kept_;
  bool fresh_ = true;         // the task still has its initial values
  bool initialized_ = false;  // the initial values are those of --init
};

}  // namespace rekindle::trainer
