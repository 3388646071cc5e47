// Internal to the module: LibTorch and models report failures by exceptions, which end here.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/abort.hpp"

namespace rekindle::model {

// What `f` returns, a Result or Status, or an error in its place.
template <class F>
auto without_exceptions(const char* doing, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const Aborted&) {
    return forward_error({ExitCode::kGaveUp, "the micro-batch was abandoned", {}, ErrorKind::kAborted});
  } catch (const c10::Error& error) {
    return fail(str("LibTorch failed while ", doing, ": ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return fail(str("out of memory while ", doing), "use a smaller batch or more micro-batches");
  } catch (const std::exception& error) {
    return fail(str("the model failed while ", doing, ": ", error.what()));
  }
}

}  // namespace rekindle::model
