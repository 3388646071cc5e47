// Threads that cannot be made: an error, where an exception would end the process, or wait for threads that
// nobody ends.
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <fstream>

#include "data/loader.hpp"
#include "data/test_reader.hpp"
#include "support.hpp"

#ifdef __has_feature  // clang's
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
// Sanitizers reserve address space of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(address_sanitizer) && \
    !HAS_FEATURE(thread_sanitizer)

namespace rekindle::data {
namespace {

constexpr int kTooMany = 200;  // more stacks than the C library keeps of threads that have ended

// Room for a few stacks.
class LittleAddressSpace {
 public:
  LittleAddressSpace() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit little = before_;
    little.rlim_cur = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + kRoom;
    ::setrlimit(RLIMIT_AS, &little);
  }
  LittleAddressSpace(const LittleAddressSpace&) = delete;
  LittleAddressSpace& operator=(const LittleAddressSpace&) = delete;
  ~LittleAddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  static constexpr std::uint64_t kRoom = std::uint64_t{32} << 20;
  rlimit before_{};
};

TEST(Threads, NoneToReadTestSamplesWith_AnErrorAndLaterABatch) {
  const auto dataset = made("cifar10", 31);
  TestReader reader(*dataset, 32, kTooMany);
  {
    const LittleAddressSpace little;
    const auto failed = reader.read(0, 4);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().line(), testing::ContainsRegex("thread [0-9]+ of 200 to read the test samples "
                                                              "with cannot be made: .*: use fewer threads"));
  }
  EXPECT_TRUE(reader.read(0, 4));
}

TEST(Threads, NoneToLoadSamplesWith_AnErrorOfTheFirstMicroBatch) {
  const auto dataset = made("cifar10", 31);
  const LittleAddressSpace little;
  Loader loader(*dataset, {.micro_batches = 4, .samples = 3, .transform = {32}, .threads = kTooMany});
  loader.start(0, {0, 1});
  const auto failed = loader.next();
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().line(), testing::ContainsRegex("to read the training samples with cannot be "
                                                            "made: .*: use fewer --loader-threads"));
}

}  // namespace
}  // namespace rekindle::data

#endif
