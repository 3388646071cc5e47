// stdout and stderr of the static libraries in librekindle.so, where the portable build links with --wrap.
//
// Code that is compiled for a program (-fPIE) addresses these two variables of libc directly, which a shared
// library cannot. With --wrap=stderr, such code uses __wrap_stderr, which lies in the library.
#include <cstdio>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern std::FILE* __real_stdout;
extern std::FILE* __real_stderr;
std::FILE* __wrap_stdout = nullptr;
std::FILE* __wrap_stderr = nullptr;

// Before the constructors of other sources.
[[gnu::constructor(101)]] static void set_streams() {
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
}
// NOLINTEND(bugprone-reserved-identifier)
}
