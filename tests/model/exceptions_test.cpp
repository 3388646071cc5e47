// What becomes of LibTorch's exceptions.
#include "model/exceptions.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result.hpp"

namespace rekindle::model {
namespace {

using ::testing::HasSubstr;

TEST(Exceptions, AFullGpu_OneLineThatSaysWhatToDo) {
  const Status status = without_exceptions("computing a micro-batch", []() -> Status {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2 GiB.\nSee more.");
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what,
            "LibTorch failed while computing a micro-batch: CUDA out of memory. Tried to allocate 2 GiB.");
  EXPECT_THAT(status.error().hint, HasSubstr("use fewer programs and trainers on this GPU"));
}

TEST(Exceptions, AnotherError_HasNoSuchHint) {
  const Status status =
      without_exceptions("computing", []() -> Status { TORCH_CHECK(false, "sizes differ"); });
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("LibTorch failed while computing: sizes differ"));
  EXPECT_EQ(status.error().hint, "");
}

}  // namespace
}  // namespace rekindle::model
