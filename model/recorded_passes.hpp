// Internal to the module: a GPU repeats a micro-batch's operators from a recording (a CUDA graph). Starting a
// thousand operators one after the other takes the host longer than they take the GPU.
#pragma once

#include <functional>
#include <memory>

#include "base/result.hpp"
#include "model/pass.hpp"

namespace rekindle::model {

class RecordedPasses {
 public:
  // Starts the operators of a pass whose gradient goes to `gradient`.
  using Start = std::function<Result<Pass>(const TrainingBatch& batch, const at::Tensor& gradient)>;

  // `wanted`: the model allows it (ModelRow::recordable), and the device is a GPU. REKINDLE_CUDA_GRAPHS=0 in
  // the environment turns it off. Recorded or not, a pass has the same bits.
  explicit RecordedPasses(bool wanted);
  ~RecordedPasses();
  RecordedPasses(const RecordedPasses&) = delete;
  RecordedPasses& operator=(const RecordedPasses&) = delete;

  // Whether the next pass starts no operators one by one, so that nothing can stop it in between.
  bool ready() const;
  // The first passes only call `start`, so that libraries get ready. Then there is a recording for each
  // address of gradient memory. The random numbers come from the default generator's seed, as it is at the
  // call. Errors: those of `start`; an operator that cannot be recorded, after which this process must not go
  // on.
  Result<Pass> run(const TrainingBatch& batch, const at::Tensor& gradient, const Start& start);

 private:
  struct Recordings;
  std::unique_ptr<Recordings> recordings_;  // nullptr: nothing is recorded
};

}  // namespace rekindle::model
