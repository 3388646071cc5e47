// A library to preload: matrix products of one trainer are slightly wrong, as on another CPU or with another
// version of a library, or never end. REKINDLE_TEST_OTHER_BITS is "wrong:NAME" (always the same error),
// "drifts:NAME" (the error grows with each call) or "hangs:NAME" (once, when the file REKINDLE_TEST_HANG
// exists, which is then removed) for trainers whose names begin with NAME.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace {

enum class Fault { kNone, kWrong, kDrifts, kHangs };

Fault fault_of_this_process() {
  const char* asked = std::getenv("REKINDLE_TEST_OTHER_BITS");
  if (asked == nullptr) return Fault::kNone;
  const std::string text = asked;
  const auto colon = text.find(':');
  std::stringstream arguments;
  arguments << std::ifstream("/proc/self/cmdline").rdbuf();
  const std::string name = std::string("--name") + '\0' + text.substr(colon + 1);
  if (arguments.str().find(name) == std::string::npos) return Fault::kNone;
  if (arguments.str().find("rekindle-trainer") == std::string::npos) return Fault::kNone;
  if (text.starts_with("hangs")) return Fault::kHangs;
  return text.starts_with("wrong") ? Fault::kWrong : Fault::kDrifts;
}

// Only this thread stands still.
void hang_if_asked() {
  static const char* const file = std::getenv("REKINDLE_TEST_HANG");
  if (file == nullptr || ::unlink(file) != 0) return;
  for (;;) ::pause();
}

// at::_ops::addmm::call(self, mat1, mat2, beta, alpha) -> at::Tensor, which LibTorch calls for a linear
// layer. In the calling convention a returned object is a pointer to its memory, and so are these arguments.
// The library knows nothing else of LibTorch, because it is loaded into processes without LibTorch, too.
#define REKINDLE_ADDMM "_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_"
// c10::Scalar with a value of type double.
struct Scalar {
  alignas(16) int tag = 0;  // Scalar::Tag::HAS_d
  alignas(16) double value = 0;
};
using Addmm = void*(void* result, const void* self, const void* mat1, const void* mat2, const void* beta,
                    const void* alpha);

}  // namespace

__attribute__((visibility("default"))) Addmm addmm __asm__(REKINDLE_ADDMM);

void* addmm(void* result, const void* self, const void* mat1, const void* mat2, const void* beta,
            const void* alpha) {
  static Addmm* const real = reinterpret_cast<Addmm*>(::dlsym(RTLD_NEXT, REKINDLE_ADDMM));
  static const Fault fault = fault_of_this_process();
  static std::atomic<int> calls = 0;
  if (fault == Fault::kHangs) hang_if_asked();
  if (fault == Fault::kNone || fault == Fault::kHangs) return real(result, self, mat1, mat2, beta, alpha);
  const Scalar wrong = {.value = 1 + 1e-5 * (fault == Fault::kDrifts ? ++calls : 1)};
  return real(result, self, mat1, mat2, beta, &wrong);
}
