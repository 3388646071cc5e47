#include "data/idx.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr IdxFormat kFormat = {
    &kMnist,     "MNIST", "MNIST", Preprocessing::kMnist, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
    Made::kMnist};

}  // namespace

const DatasetRow kMnist = {
    "mnist",
    "MNIST's IDX files, plain or .gz",
    SampleKind::kImages,
    Augment::kOff,
    [](const fs::path& path, const DatasetOptions&) { return open_idx(kFormat, path); },
    [](const fs::path& folder, std::size_t samples, std::uint64_t seed) {
      return make_idx(kFormat, folder, samples, seed, draw_digit);
    },
    [](const fs::path& folder) { return has_idx(kFormat, folder); }};

}  // namespace rekindle::data
