// Internal to the module: LibTorch and models report failures by exceptions, which end here.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/lines.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/abort.hpp"

namespace rekindle::model {

// What `f` returns, a Result or Status, or an error in its place. `hint`: of an exception that `f` itself may
// have thrown.
template <class F>
auto without_exceptions(const char* doing, F&& f, const std::string& hint = {}) -> decltype(f()) {
  const auto abandoned = [] {
    return forward_error({ExitCode::kGaveUp, "the micro-batch was abandoned", {}, ErrorKind::kAborted});
  };
  const auto no_memory = [doing] {
    return fail(str("out of memory while ", doing),
                "use fewer trainers on this machine; a new run: a smaller batch, or more micro-batches");
  };
  try {
    return std::forward<F>(f)();
  } catch (const Aborted&) {
    return abandoned();
  } catch (const AbortedInBackward&) {
    return abandoned();
  } catch (const c10::OutOfMemoryError& error) {
    return fail(str("LibTorch failed while ", doing, ": ", first_line_of(error.what_without_backtrace())),
                "use fewer programs and trainers on this GPU; a new run: more --micro-batches, or a smaller "
                "--batch-size");
  } catch (const c10::Error& error) {
    // These exceptions have no type of their own (Context::alertNotDeterministic, alloc_cpu).
    const std::string what = error.what_without_backtrace();
    if (what.find("deterministic implementation") != std::string::npos)
      return fail(
          ExitCode::kConfig,
          str("the model uses an operator without a deterministic version: ", what.substr(0, what.find(' '))),
          "use another operator");
    if (what.find("DefaultCPUAllocator") != std::string::npos) return no_memory();
    return fail(str("LibTorch failed while ", doing, ": ", first_line_of(what)), hint);
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::exception& error) {
    return fail(str("the model failed while ", doing, ": ", line_of_exception(error.what())), hint);
  } catch (...) {
    return fail(str("the model failed while ", doing, ": an exception of an unknown type"), hint);
  }
}

}  // namespace rekindle::model
