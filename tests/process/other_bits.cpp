// A library to preload: the exponential function of one trainer is slightly wrong, as on another CPU or with
// another libm. REKINDLE_TEST_EXP is "wrong:NAME" (always the same error) or "drifts:NAME" (the error grows
// with each call) for trainers whose names begin with NAME.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace {

enum class Fault { kNone, kWrong, kDrifts };

Fault fault_of_this_process() {
  const char* asked = std::getenv("REKINDLE_TEST_EXP");
  if (asked == nullptr) return Fault::kNone;
  const std::string text = asked;
  const auto colon = text.find(':');
  std::stringstream arguments;
  arguments << std::ifstream("/proc/self/cmdline").rdbuf();
  const std::string name = std::string("--name") + '\0' + text.substr(colon + 1);
  if (arguments.str().find(name) == std::string::npos) return Fault::kNone;
  if (arguments.str().find("rekindle-trainer") == std::string::npos) return Fault::kNone;
  return text.starts_with("wrong") ? Fault::kWrong : Fault::kDrifts;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) double exp(double x) noexcept {
  static const auto real = reinterpret_cast<double (*)(double)>(::dlsym(RTLD_NEXT, "exp"));
  static const Fault fault = fault_of_this_process();
  static std::atomic<int> calls = 0;
  if (fault == Fault::kNone) return real(x);
  // A factor on the result would cancel in softmax.
  return real(x * (1 + 1e-5 * (fault == Fault::kDrifts ? ++calls : 1)));
}
