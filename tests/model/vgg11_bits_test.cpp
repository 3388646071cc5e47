#include "replica_tools.hpp"

namespace rekindle::model {

INSTANTIATE_TEST_SUITE_P(Vgg11, EachModel, testing::Values(kVgg), [](const auto&) { return "Vgg11"; });

}  // namespace rekindle::model
