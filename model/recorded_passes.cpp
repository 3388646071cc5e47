#include "model/recorded_passes.hpp"

#ifdef REKINDLE_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <list>

#include "base/process.hpp"
#include "model/exceptions.hpp"

namespace rekindle::model {
namespace {

constexpr int kPlainPasses = 3;
// A trainer has few slots of gradient memory: as many as a tree of its micro-batches has levels.
constexpr std::size_t kMostRecordings = 16;

struct Recording {
  const void* gradient = nullptr;
  std::unique_ptr<at::cuda::CUDAGraph> graph = std::make_unique<at::cuda::CUDAGraph>();
  Pass pass;
};

// Ends a recording that has failed, so that the error can be told: a stream that records can neither be
// waited for nor used otherwise. LibTorch's generator still believes that it records, so this process must
// not go on.
class Unfinished {
 public:
  explicit Unfinished(at::cuda::MempoolId_t pool) : pool_(pool) {}
  ~Unfinished() {
    if (dismissed_) return;
    const auto stream = c10::cuda::getCurrentCUDAStream();
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream.stream(), &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(stream.device_index(), pool_);
    } catch (const c10::Error&) {  // LibTorch has done it
    }
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  void dismiss() { dismissed_ = true; }

 private:
  const at::cuda::MempoolId_t pool_;
  bool dismissed_ = false;
};

}  // namespace

struct RecordedPasses::Recordings {
  int passes = 0;
  TrainingBatch batch;  // where all recordings read
  // They share their memory: no two run at a time, and each one's results are read before the next.
  at::cuda::MempoolId_t pool{};
  std::list<Recording> all;

  Result<Recording> record(const at::Tensor& gradient, const Start& start) {
    return without_exceptions("recording a micro-batch", [&]() -> Result<Recording> {
      if (all.empty()) {
        pool = at::cuda::graph_pool_handle();
        c10::cuda::CUDACachingAllocator::emptyCache();  // of the plain passes: it does not serve recordings
      }
      Recording made;
      made.gradient = gradient.const_data_ptr();
      // Other threads may use the GPU meanwhile.
      made.graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      Unfinished unfinished(pool);
      REKINDLE_TRY(made.pass, start(batch, gradient));
      made.graph->capture_end();
      unfinished.dismiss();
      return made;
    });
  }
};

RecordedPasses::RecordedPasses(bool wanted) {
  if (wanted && environment_variable("REKINDLE_CUDA_GRAPHS") != "0")
    recordings_ = std::make_unique<Recordings>();
}
RecordedPasses::~RecordedPasses() = default;

bool RecordedPasses::ready() const { return recordings_ != nullptr && recordings_->passes >= kPlainPasses; }

Result<Pass> RecordedPasses::run(const TrainingBatch& batch, const at::Tensor& gradient, const Start& start) {
  if (!ready()) {
    auto pass = start(batch, gradient);
    if (pass && recordings_ != nullptr) ++recordings_->passes;
    return pass;
  }
  Recordings& r = *recordings_;
  if (!r.batch.inputs.defined()) r.batch = {batch.inputs.clone(), batch.targets.clone()};
  auto found = std::ranges::find(r.all, gradient.const_data_ptr(), &Recording::gradient);
  const bool another = found == r.all.end();
  if (batch.inputs.sizes() != r.batch.inputs.sizes() || (another && r.all.size() == kMostRecordings))
    return start(batch, gradient);
  r.batch.inputs.copy_(batch.inputs);
  r.batch.targets.copy_(batch.targets);
  if (another) {
    auto made = r.record(gradient, start);
    if (!made) {
      made.error().what += " (while a CUDA graph of the model was recorded)";
      made.error().hint += str(made.error().hint.empty() ? "" : "; or ",
                               "set REKINDLE_CUDA_GRAPHS=0, or leave recordable out of the model's row");
      return forward_error(std::move(made.error()));
    }
    found = r.all.insert(r.all.end(), std::move(*made));
  }
  found->graph->replay();
  return found->pass;
}

}  // namespace rekindle::model

#else

namespace rekindle::model {

struct RecordedPasses::Recordings {};

RecordedPasses::RecordedPasses(bool) {}
RecordedPasses::~RecordedPasses() = default;

bool RecordedPasses::ready() const { return false; }

Result<Pass> RecordedPasses::run(const TrainingBatch& batch, const at::Tensor& gradient, const Start& start) {
  return start(batch, gradient);
}

}  // namespace rekindle::model

#endif
