// Batch normalization, against the same in double on the host.
#include "device/cuda_norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text.hpp"
#include "gpu_fixture.hpp"
#include "numbers.hpp"

namespace rekindle::device {
namespace {

using testing::Bits;

template <class T>
class CudaNorm : public testing::OnGpu {
 protected:
  static constexpr Number kNumber = std::is_same_v<T, Bits> ? Number::kBfloat16 : Number::kFloat32;
  static constexpr double kPrecision = std::is_same_v<T, Bits> ? 1.0 / 128 : 1e-5;

  static std::vector<T> draw(std::uint64_t seed, std::size_t count, float mean) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(mean);
    std::vector<T> values(count);
    for (T& each : values) each = testing::number<T>(normal(random));
    return values;
  }
  cudaStream_t native() { return static_cast<cudaStream_t>(stream->native()); }

  static void expect_near(const std::vector<double>& expected, const std::vector<double>& got, double scale,
                          const std::string& what) {
    ASSERT_EQ(expected.size(), got.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - expected[i]) / (scale + std::abs(expected[i])));
    EXPECT_LT(worst, 2 * kPrecision) << what;
    if (!std::isfinite(worst)) ADD_FAILURE() << what << " is not finite";
  }
  template <class U>
  std::vector<double> got(const Memory& memory, std::size_t count) {
    std::vector<double> values;
    for (const U each : download<U>(memory)) values.push_back(testing::value(each));
    values.resize(count);
    return values;
  }

  // Checks both directions for one shape.
  void check(std::size_t pixels, int channels, bool residual, bool relu) {
    const NormShape shape{kNumber, pixels, channels};
    ASSERT_TRUE(suits(shape));
    const auto all = static_cast<std::size_t>(channels);
    const std::string what =
        str(pixels, " pixels, ", channels, " channels", residual ? ", residual" : "", relu ? ", relu" : "");
    const std::vector<T> x = draw(1, pixels * all, 3), more = draw(2, pixels * all, 0),
                         dout = draw(3, pixels * all, 0.25);
    std::vector<float> weight(all), bias(all), running(all, 0.5F);
    for (std::size_t c = 0; c < all; ++c)
      weight[c] = 0.5F + static_cast<float>(c % 5) / 4, bias[c] = static_cast<float>(c % 7) / 8 - 0.3F;

    const Memory gx = upload(x), gmore = upload(more), gdout = upload(dout), gweight = upload(weight),
                 gbias = upload(bias), gmean = upload(running), gvariance = upload(running),
                 count = upload(std::vector<std::int64_t>{41}),
                 statistics = upload(std::vector<float>(5 * all)),
                 work = std::move(device->allocate(norm_work_bytes(shape)).value()),
                 gy = upload(draw(4, x.size(), 0)), gdx = upload(draw(5, x.size(), 0)),
                 gdmore = upload(draw(6, x.size(), 0));
    float* const own = statistics.floats().data();
    NormForward forward{.x = gx.data(), .residual = residual ? gmore.data() : nullptr, .y = gy.data()};
    forward.weight = gweight.floats().data(), forward.bias = gbias.floats().data();
    forward.mean = own, forward.scale = own + all, forward.deviation = own + 2 * all;
    forward.running_mean = gmean.floats().data(), forward.running_variance = gvariance.floats().data();
    forward.count = static_cast<std::int64_t*>(count.data()), forward.relu = relu;
    ASSERT_EQ(norm_forward(shape, forward, work.floats().data(), native()), cudaSuccess);
    NormBackward backward{.x = gx.data(), .dout = gdout.data()};
    backward.y = relu && residual ? gy.data() : nullptr;
    backward.dx = gdx.data(), backward.dresidual = residual ? gdmore.data() : nullptr;
    backward.bias = forward.bias, backward.mean = own, backward.scale = own + all;
    backward.deviation = own + 2 * all, backward.dweight = own + 3 * all, backward.dbias = own + 4 * all;
    backward.relu = relu;
    ASSERT_EQ(norm_backward(shape, backward, work.floats().data(), native()), cudaSuccess);

    const std::vector<double> y = got<T>(gy, x.size());
    std::vector<double> expected_y(x.size()), dx(x.size()), dmore(x.size()), mean(all), variance(all),
        dweight(all), dbias(all);
    const double n = static_cast<double>(pixels);
    for (std::size_t c = 0; c < all; ++c) {
      double sum = 0, squares = 0, along = 0;
      for (std::size_t p = 0; p < pixels; ++p) sum += testing::value(x[p * all + c]);
      for (std::size_t p = 0; p < pixels; ++p)
        squares += std::pow(testing::value(x[p * all + c]) - sum / n, 2);
      const double deviation = 1 / std::sqrt(squares / n + 1e-5);
      mean[c] = 0.9 * 0.5 + 0.1 * sum / n;
      variance[c] = 0.9 * 0.5 + 0.1 * squares / (n - 1);
      double total = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        const std::size_t i = p * all + c;
        const double d = testing::value(x[i]) - sum / n;
        expected_y[i] = d * deviation * weight[c] + bias[c] + (residual ? testing::value(more[i]) : 0);
        if (relu) expected_y[i] = std::max(expected_y[i], 0.0);
        // Near zero, rounding decides about the ReLU.
        dmore[i] = relu && y[i] <= 0 ? 0 : testing::value(dout[i]);
        total += dmore[i];
        along += dmore[i] * d;
      }
      dbias[c] = total, dweight[c] = along * deviation;
      for (std::size_t p = 0; p < pixels; ++p) {
        const std::size_t i = p * all + c;
        const double d = testing::value(x[i]) - sum / n;
        dx[i] = weight[c] * deviation * (dmore[i] - total / n - d * deviation * deviation * along / n);
      }
    }
    const double root = std::sqrt(n);
    expect_near(expected_y, y, 1, what + ": y");
    expect_near(dx, got<T>(gdx, x.size()), 1, what + ": dx");
    if (residual) expect_near(dmore, got<T>(gdmore, x.size()), 1, what + ": dresidual");
    const std::vector<double> statistic = got<float>(statistics, 5 * all);
    const auto part = [&](std::size_t i) {
      return std::vector<double>(statistic.begin() + static_cast<std::ptrdiff_t>(i * all),
                                 statistic.begin() + static_cast<std::ptrdiff_t>((i + 1) * all));
    };
    expect_near(dweight, part(3), root, what + ": dweight");
    expect_near(dbias, part(4), root, what + ": dbias");
    expect_near(mean, got<float>(gmean, all), 1, what + ": running mean");
    expect_near(variance, got<float>(gvariance, all), 1, what + ": running variance");
    EXPECT_EQ(download<std::int64_t>(count)[0], 42);
  }
};

using Numbers = ::testing::Types<float, Bits>;
TYPED_TEST_SUITE(CudaNorm, Numbers);

TYPED_TEST(CudaNorm, BothDirections) {
  for (const bool residual : {false, true})
    for (const bool relu : {false, true}) {
      this->check(3 * 14 * 14, 64, residual, relu);
      this->check(2 * 7 * 7, 2048, residual, relu);
      this->check(40'001, 8, residual, relu);
    }
}

TYPED_TEST(CudaNorm, OtherShapesAreRefused) {
  EXPECT_FALSE(suits(NormShape{this->kNumber, 100, 96}));
  EXPECT_FALSE(suits(NormShape{this->kNumber, 100, 3}));
  EXPECT_FALSE(suits(NormShape{this->kNumber, 0, 64}));
}

}  // namespace
}  // namespace rekindle::device
