// The passes after a convolution, against the same on the host.
#include "device/cuda_images.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gpu_fixture.hpp"
#include "numbers.hpp"

namespace rekindle::device {
namespace {

using testing::Bits;
using testing::number;
using testing::value;

template <class T>
class CudaImages : public testing::OnGpu {
 protected:
  static constexpr Number kNumber = std::is_same_v<T, Bits> ? Number::kBfloat16 : Number::kFloat32;

  static std::vector<T> draw(std::uint64_t seed, std::size_t count) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<T> values(count);
    // Few different values, so that many are equal.
    for (T& each : values) each = number<T>(std::round(normal(random) * 8) / 8);
    return values;
  }
  cudaStream_t native() { return static_cast<cudaStream_t>(stream->native()); }

  // Checks both directions for one shape.
  void check(const ImageShape& shape, bool pools) {
    const auto height = static_cast<std::size_t>(shape.height), width = static_cast<std::size_t>(shape.width),
               channels = static_cast<std::size_t>(shape.channels);
    const std::size_t pixels = shape.images * height * width, packed = pools ? pixels / 4 : pixels;
    std::vector<T> y = draw(1, pixels * channels);
    y[channels] = number<T>(std::numeric_limits<float>::quiet_NaN());
    const std::vector<T> dout = draw(2, packed * channels);
    std::vector<float> bias(channels);
    for (std::size_t c = 0; c < channels; ++c) bias[c] = static_cast<float>(c % 7) / 16 - 0.2F;
    std::vector<T> out(packed * channels), dy(pixels * channels, number<T>(0));
    std::vector<double> dbias(channels);
    for (std::size_t p = 0; p < packed; ++p) {
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t half = width / 2, row = p / half, column = p % half;
        std::size_t from = p, best = p;
        float most = 0;
        for (int i = 0; i < (pools ? 4 : 1); ++i) {
          if (pools) from = (2 * row + i / 2) * width + 2 * column + i % 2;
          const float sum = value(number<T>(value(y[from * channels + c]) + bias[c]));
          if (i == 0 || sum > most || std::isnan(sum)) most = sum, best = from;
        }
        const bool passes = most > 0 || std::isnan(most);
        out[p * channels + c] = number<T>(passes ? most : 0);
        const T d = dout[p * channels + c];
        dy[best * channels + c] = passes ? d : number<T>(0);
        if (passes) dbias[c] += value(d);
      }
    }
    const Memory gpu_y = upload(y), gpu_bias = upload(bias), gpu_dout = upload(dout);
    const Memory gpu_out = upload(std::vector<T>(pools ? out.size() : 1)),
                 gpu_dy = upload(draw(3, dy.size())), codes = std::move(device->allocate(out.size()).value()),
                 gpu_dbias = upload(std::vector<float>(channels)),
                 work = std::move(device->allocate(bias_work_bytes(shape)).value());
    auto* const code = static_cast<std::uint8_t*>(codes.data());
    if (pools) {
      ASSERT_EQ(bias_pool_relu(shape, gpu_y.data(), gpu_bias.floats().data(), gpu_out.data(), code, native()),
                0);
      ASSERT_EQ(bias_pool_relu_backward(shape, code, gpu_dout.data(), gpu_dy.data(),
                                        gpu_dbias.floats().data(), work.floats().data(), native()),
                0);
    } else {
      ASSERT_EQ(bias_relu(shape, gpu_y.data(), gpu_bias.floats().data(), native()), 0);
      ASSERT_EQ(bias_relu_backward(shape, gpu_y.data(), gpu_dout.data(), gpu_dy.data(),
                                   gpu_dbias.floats().data(), work.floats().data(), native()),
                0);
    }
    const std::vector<T> got = download<T>(pools ? gpu_out : gpu_y), got_dy = download<T>(gpu_dy);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (value(got[i]) != value(out[i]) && !(std::isnan(value(got[i])) && std::isnan(value(out[i]))))
        ++wrong;
    for (std::size_t i = 0; i < dy.size(); ++i) wrong += value(got_dy[i]) != value(dy[i]) ? 1 : 0;
    EXPECT_EQ(wrong, 0U) << shape.channels << " channels" << (pools ? ", pooled" : "");
    const std::vector<float> got_dbias = download(gpu_dbias);
    for (std::size_t c = 0; c < channels; ++c)
      EXPECT_NEAR(got_dbias[c], dbias[c], 1e-3 * std::sqrt(static_cast<double>(packed))) << c;
  }
};

using Numbers = ::testing::Types<float, Bits>;
TYPED_TEST_SUITE(CudaImages, Numbers);

TYPED_TEST(CudaImages, BothDirections) {
  for (const int channels : {8, 64, 128, 512}) {
    for (const bool pools : {false, true}) {
      const ImageShape shape{this->kNumber, 3, 14, 28, channels};
      ASSERT_TRUE(suits(shape, pools));
      this->check(shape, pools);
    }
  }
}

TYPED_TEST(CudaImages, OtherShapesAreRefused) {
  EXPECT_FALSE(suits({this->kNumber, 3, 15, 28, 64}, true));
  EXPECT_TRUE(suits({this->kNumber, 3, 15, 28, 64}, false));
  EXPECT_FALSE(suits({this->kNumber, 3, 14, 28, 96}, false));
  EXPECT_FALSE(suits({this->kNumber, 3, 14, 28, 3}, false));
}

}  // namespace
}  // namespace rekindle::device
