#include <gtest/gtest.h>

#include "../trainer/device_state_check.hpp"
#include "gpu_fixture.hpp"

namespace rekindle::trainer {
namespace {

using CudaState = device::testing::OnGpu;

TEST_F(CudaState, HasTheBitsOfTheHost) { testing::check_all(place); }

}  // namespace
}  // namespace rekindle::trainer
