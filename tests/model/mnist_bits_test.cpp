#include "replica_tools.hpp"

namespace rekindle::model {

INSTANTIATE_TEST_SUITE_P(MnistCnn, EachModel, testing::Values(kMnist),
                         [](const auto&) { return "MnistCnn"; });

}  // namespace rekindle::model
