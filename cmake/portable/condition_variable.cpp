// std::condition_variable::wait() as libraries call it that were compiled with g++ 11 or older, LibTorch's
// among them. Debian's objects of libstdc++ have only the newer version of the symbol.
#include <condition_variable>
#include <mutex>

extern "C" void rekindle_condition_variable_wait(std::condition_variable* self,
                                                 std::unique_lock<std::mutex>* lock) noexcept {
  self->wait(*lock);
}

__asm__(
    ".symver rekindle_condition_variable_wait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
