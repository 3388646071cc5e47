// What becomes of LibTorch's exceptions.
#include "model/exceptions.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>

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

TEST(Exceptions, OfAModelsOwnCode_HaveItsHint) {
  const auto line_of = [](auto&& throwing) {
    return without_exceptions(
               "building the model",
               [&]() -> Status {
                 throwing();
                 return {};
               },
               "look at it")
        .error()
        .line();
  };
  EXPECT_EQ(line_of([] { std::ignore = std::stoi("x"); }),
            "the model failed while building the model: stoi: look at it");
  EXPECT_EQ(line_of([] { throw std::runtime_error("\nno weights\nat line 3"); }),
            "the model failed while building the model: no weights: look at it");
  EXPECT_EQ(line_of([] {
              throw std::runtime_error(
                  "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript "
                  "(most recent call last):\n  at line 3\nRuntimeError: sizes differ\n");
            }),
            "the model failed while building the model: RuntimeError: sizes differ: look at it");
  EXPECT_EQ(line_of([] { throw 1; }),
            "the model failed while building the model: an exception of an unknown type: look at it");
  EXPECT_THAT(line_of([] { TORCH_CHECK(false, "sizes differ"); }), HasSubstr("sizes differ: look at it"));
  EXPECT_THAT(line_of([] { throw std::bad_alloc(); }),
              HasSubstr("out of memory while building the model: use "));
}

TEST(Exceptions, TooLittleMemoryOnACpu_OneLineThatSaysWhatToDo) {
  const Status status = without_exceptions("computing a micro-batch", []() -> Status {
    at::empty({std::int64_t{1} << 60});
    return {};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "out of memory while computing a micro-batch");
}

}  // namespace
}  // namespace rekindle::model
