// The kernels on a GPU have the bits of the host.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "device/kernels.hpp"
#include "gpu_fixture.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::device {
namespace {

using Floats = std::vector<float>;

// Of very different sizes, denormal numbers among them.
Floats draw(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random) * std::exp2(static_cast<float>(random() % 24) - 12.0F);
  for (std::size_t i = 0; i < count; i += 97) values[i] *= 1e-38F;
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class CudaKernels : public testing::OnGpu {
 protected:
  void run(const Kernel& kernel) { device->run(*stream, kernel); }
};

const std::size_t kCounts[] = {1, 255, 256, 257, 1'000'003};

TEST_F(CudaKernels, Elementwise) {
  for (const std::size_t count : kCounts) {
    Floats from = draw(1, count), to = draw(2, count);
    from.front() = to.front() = -INFINITY;  // a mask
    const Memory f = upload(from), t = upload(to);
    run(AddInto{t.floats().data(), f.floats().data(), count});
    run_on_host(AddInto{to.data(), from.data(), count});
    EXPECT_TRUE(same_bits(download(t), to)) << "add, " << count;
    run(MoveTowards{t.floats().data(), f.floats().data(), 0.01F, count});
    run_on_host(MoveTowards{to.data(), from.data(), 0.01F, count});
    EXPECT_TRUE(same_bits(download(t), to)) << "move, " << count;
    run(Scale{t.floats().data(), f.floats().data(), 1.0F / 3, count});
    run_on_host(Scale{to.data(), from.data(), 1.0F / 3, count});
    EXPECT_TRUE(same_bits(download(t), to)) << "scale, " << count;
  }
}

TEST_F(CudaKernels, Pieces_ScaledAndAsTheyAre) {
  const Floats from = draw(1, 10'000), before = draw(2, 10'000);
  const Memory f = upload(from), t = upload(before);
  Floats to = before;
  Pieces on_gpu, on_host;
  on_gpu.factor = on_host.factor = 1.0F / 3;
  for (std::uint32_t i = 0; i < kMostPieces; ++i) {
    const std::uint32_t first = 70 * i, count = i % 67;
    on_gpu.piece[i] = {t.floats().data() + first, f.floats().data() + first, count, i % 2 == 0};
    on_host.piece[i] = {to.data() + first, from.data() + first, count, i % 2 == 0};
  }
  on_gpu.pieces = on_host.pieces = kMostPieces;
  run(on_gpu);
  run_on_host(on_host);
  EXPECT_TRUE(same_bits(download(t), to));
  EXPECT_FALSE(same_bits(before, to));
}

TEST_F(CudaKernels, TreeSums) {
  for (const int partials : {1, 2, 3, 8, 256}) {
    const std::size_t count = partials == 256 ? 10'007 : 1'000'003;
    std::vector<Floats> from;
    std::vector<Memory> on_device;
    TreeSum host, gpu;
    host.partials = gpu.partials = partials;
    host.count = gpu.count = count;
    for (int i = 0; i < partials; ++i) from.push_back(draw(static_cast<std::uint64_t>(i), count));
    for (int i = 0; i < partials; ++i) {
      on_device.push_back(upload(from[i]));
      host.from[i] = from[i].data();
      gpu.from[i] = on_device[i].floats().data();
      int merges = 0;  // of a tree
      for (int n = i + 1; n % 2 == 0; n /= 2) ++merges;
      if (partials == 3 && i == 2) merges = 1;
      host.merges[i] = gpu.merges[i] = static_cast<std::uint8_t>(merges);
    }
    Floats sum(count);
    host.to = sum.data();
    gpu.to = on_device[0].floats().data();
    run(gpu);
    run_on_host(host);
    EXPECT_TRUE(same_bits(download(on_device[0]), sum)) << partials;
  }
}

TEST_F(CudaKernels, UpdatesOfEveryOptimizer) {
  for (const optim::Options& options : std::vector<optim::Options>{{.weight_decay = 5e-4},
                                                                   {.weight_decay = 5e-4, .momentum = 0.9},
                                                                   {.momentum = 0.9, .nesterov = true},
                                                                   {.name = "adam", .weight_decay = 1e-2},
                                                                   {.name = "adamw", .weight_decay = 1e-2},
                                                                   {.name = "adadelta"},
                                                                   {.name = "rmsprop"},
                                                                   {.name = "rmsprop", .momentum = 0.9}}) {
    const auto optimizer = std::move(optim::make_optimizer(options).value());
    for (const std::size_t count : kCounts) {
      Floats p = draw(1, count), a(count), b(count);
      const Memory gpu_p = upload(p), gpu_a = upload(a), gpu_b = upload(b);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Floats sum = draw(10 + step, count);
        const Memory gpu_sum = upload(sum);
        Update update{.formula = optimizer->as_formula()->formula(
                          {.number = step, .scale = 0.125F, .learning_rate = 0.05})};
        update.count = count;
        Update on_gpu = update;
        update.parameters = p.data(), update.states = {a.data(), b.data()}, update.sum = sum.data();
        on_gpu.parameters = gpu_p.floats().data();
        on_gpu.states = {gpu_a.floats().data(), gpu_b.floats().data()};
        on_gpu.sum = gpu_sum.floats().data();
        run(on_gpu);
        run_on_host(update);
        EXPECT_TRUE(same_bits(download(gpu_p), p) && same_bits(download(gpu_a), a) &&
                    same_bits(download(gpu_b), b))
            << options.name << ", " << count << ", step " << step;
      }
    }
  }
}

TEST_F(CudaKernels, SumsOfSquares) {
  for (const std::size_t first : {std::size_t{0}, std::size_t{16}, std::size_t{65'552}}) {
    const Floats from = draw(3, 1'000'003);
    std::vector<double> sums(kNormSums);
    const Memory gpu_from = upload(from), gpu_sums = upload(sums);
    for (const std::size_t cut : {std::size_t{500'000}, from.size()}) {
      const std::size_t begin = cut == from.size() ? 500'000 : 0;
      run_on_host(SquaresInto{sums.data(), from.data() + begin, first + begin, cut - begin});
      run(SquaresInto{static_cast<double*>(gpu_sums.data()), gpu_from.floats().data() + begin, first + begin,
                      cut - begin});
    }
    EXPECT_TRUE(same_bits(download<double>(gpu_sums), sums)) << first;
  }
}

TEST_F(CudaKernels, Digests) {
  for (const std::size_t count : kCounts) {
    const Floats from = draw(4, count);
    const Memory gpu_from = upload(from);
    for (const std::size_t bytes : {4 * count, 4 * count - 1, 4 * count - 3}) {
      std::vector<std::uint64_t> sums(2, 5);
      const Memory gpu_sums = upload(sums);
      run_on_host(DigestInto{sums.data(), reinterpret_cast<const std::byte*>(from.data()), bytes, 77});
      run(DigestInto{static_cast<std::uint64_t*>(gpu_sums.data()),
                     static_cast<const std::byte*>(gpu_from.data()), bytes, 77});
      EXPECT_EQ(download<std::uint64_t>(gpu_sums), sums) << bytes;
    }
  }
}

}  // namespace
}  // namespace rekindle::device
