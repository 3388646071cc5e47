#include "data/idx.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr IdxFormat kFormat = {&kFashionMnist,
                               "Fashion-MNIST",
                               "FashionMNIST",
                               Preprocessing::kFashionMnist,
                               {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                                "Sneaker", "Bag", "Ankle boot"},
                               Made::kFashionMnist};

}  // namespace

const DatasetRow kFashionMnist = {
    "fashion-mnist",
    "Fashion-MNIST's IDX files, plain or .gz",
    SampleKind::kImages,
    Augment::kOff,
    [](const fs::path& path, const DatasetOptions&) { return open_idx(kFormat, path); },
    [](const fs::path& folder, std::size_t samples, std::uint64_t seed) {
      return make_idx(kFormat, folder, samples, seed, draw_digit);
    },
    [](const fs::path& folder) { return has_idx(kFormat, folder); }};

}  // namespace rekindle::data
