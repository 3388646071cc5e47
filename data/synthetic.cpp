#include "data/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/formats.hpp"

namespace rekindle::data {
namespace {

float between(Rng& rng, float low, float high) { return low + (high - low) * rng.unit(); }

// Approximately normal, mean 0, standard deviation 1: the scaled sum of four uniform numbers.
float noise(Rng& rng) {
  float sum = -2;
  for (int i = 0; i < 4; ++i)
    sum += rng.unit();  // a loop, because the draws in a single expression would have no defined order
  return sum * 1.7320508F;
}

std::uint8_t to_pixel(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// A triangle wave between -1 and 1 with period 1.
float triangle(float x) { return 4.0F * std::abs(x - std::floor(x + 0.5F)) - 1.0F; }

struct Point {
  float x = 0, y = 0;
};

float distance(Point p, Point a, Point b) {
  const Point ab{b.x - a.x, b.y - a.y}, ap{p.x - a.x, p.y - a.y};
  const float along = std::clamp((ap.x * ab.x + ap.y * ab.y) / (ab.x * ab.x + ab.y * ab.y), 0.0F, 1.0F);
  const float dx = ap.x - along * ab.x, dy = ap.y - along * ab.y;
  return std::sqrt(dx * dx + dy * dy);
}

// The seven segments in a box from (-1, -2) to (1, 2): top, upper left and right, middle, lower left and
// right, bottom.
constexpr std::array<std::pair<Point, Point>, 7> kSegments = {{{{-1, -2}, {1, -2}},
                                                               {{-1, -2}, {-1, 0}},
                                                               {{1, -2}, {1, 0}},
                                                               {{-1, 0}, {1, 0}},
                                                               {{-1, 0}, {-1, 2}},
                                                               {{1, 0}, {1, 2}},
                                                               {{-1, 2}, {1, 2}}}};
// Bit i: segment i is lit.
constexpr std::array<unsigned, kClasses> kDigits = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110,
                                                    0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};

}  // namespace

std::vector<std::uint8_t> balanced_labels(std::size_t count, int classes, Rng rng) {
  std::vector<std::uint8_t> labels(count);
  for (std::size_t i = 0; i < count; ++i)
    labels[i] = static_cast<std::uint8_t>(i % static_cast<std::size_t>(classes));
  for (std::size_t i = count; i > 1; --i) std::swap(labels[i - 1], labels[rng.below(i)]);
  return labels;
}

void draw_stripes(int label, Rng& rng, std::span<std::uint8_t> pixels) {
  // Directions within a quarter turn, so that a mirrored image never looks like another class. Each direction
  // has two spacings.
  constexpr std::array<Point, 5> kDirections = {
      {{1, 0}, {0.92388F, 0.38268F}, {0.70711F, 0.70711F}, {0.38268F, 0.92388F}, {0, 1}}};
  const Point direction = kDirections[label % 5];
  const float mirror = rng.below(2) == 1 ? -1.0F : 1.0F;
  const float spacing = label < 5 ? between(rng, 3.6F, 4.4F) : between(rng, 7.2F, 8.8F);  // pixels
  const float phase = rng.unit();
  const Point center{between(rng, 11, 20), between(rng, 11, 20)};
  const float radius = between(rng, 8, 12);
  const float contrast = between(rng, 30, 60);
  const float brightness = between(rng, -30, 30);
  std::array<float, 3> ground{}, stripe{};
  for (int c = 0; c < 3; ++c) {
    ground[c] = 120 + brightness + between(rng, -40, 40);
    const float tint = triangle(static_cast<float>(label) / 10.0F + static_cast<float>(c) / 3.0F);
    stripe[c] = 125 + brightness + 30 * tint + between(rng, -30, 30);
  }
  for (int y = 0; y < kCifarSide; ++y) {
    for (int x = 0; x < kCifarSide; ++x) {
      const Point at{static_cast<float>(x), static_cast<float>(y)};
      const float dx = at.x - center.x, dy = at.y - center.y;
      const float disc = std::clamp(radius - std::sqrt(dx * dx + dy * dy), 0.0F, 1.0F);
      const float wave = triangle((mirror * direction.x * at.x + direction.y * at.y) / spacing + phase);
      for (int c = 0; c < 3; ++c) {
        const float clean = ground[c] + disc * (stripe[c] + contrast * wave - ground[c]);
        pixels[(c * kCifarSide + y) * kCifarSide + x] = to_pixel(clean + 22 * noise(rng));
      }
    }
  }
}

void draw_framed_stripes(int label, Rng& rng, std::span<std::uint8_t> pixels) {
  constexpr int kFrame = 4;
  draw_stripes(label % 10, rng, pixels);
  const int first = label / 10;
  for (int c = 0; c < 3; ++c) {
    // The colours of the sides and of top and bottom: of 5 and of 2, so that a mirrored image keeps its
    // class.
    const float sides =
        125 + 90 * triangle(static_cast<float>(first % 5) / 5.0F + static_cast<float>(c) / 3.0F);
    const float ends = first < 5 ? 60.0F : 190.0F;
    for (int y = 0; y < kCifarSide; ++y) {
      for (int x = 0; x < kCifarSide; ++x) {
        const bool in_ends = y < kFrame || y >= kCifarSide - kFrame;
        if (!in_ends && x >= kFrame && x < kCifarSide - kFrame) continue;
        pixels[(c * kCifarSide + y) * kCifarSide + x] = to_pixel((in_ends ? ends : sides) + 22 * noise(rng));
      }
    }
  }
}

void draw_digit(int label, Rng& rng, std::span<std::uint8_t> pixels) {
  const Point center{between(rng, 10.5F, 16.5F), between(rng, 11.0F, 16.0F)};
  const float scale_x = between(rng, 3.2F, 5.0F), scale_y = between(rng, 3.4F, 4.8F);
  const float slant = between(rng, -0.3F, 0.3F);
  const float thickness = between(rng, 0.7F, 1.7F);
  const float ink = between(rng, 130, 250);
  std::array<std::pair<Point, Point>, 7> lines{};
  std::size_t lit = 0;
  const auto placed = [&](Point p) {
    return Point{center.x + scale_x * p.x - slant * scale_y * p.y, center.y + scale_y * p.y};
  };
  for (std::size_t s = 0; s < kSegments.size(); ++s) {
    if ((kDigits[label] >> s & 1U) != 0)
      lines[lit++] = {placed(kSegments[s].first), placed(kSegments[s].second)};
  }
  for (int y = 0; y < kMnistSide; ++y) {
    for (int x = 0; x < kMnistSide; ++x) {
      const Point at{static_cast<float>(x), static_cast<float>(y)};
      float nearest = kMnistSide;
      for (std::size_t s = 0; s < lit; ++s)
        nearest = std::min(nearest, distance(at, lines[s].first, lines[s].second));
      const float clean = ink * std::clamp(thickness + 0.5F - nearest, 0.0F, 1.0F);
      pixels[y * kMnistSide + x] = to_pixel(clean + 35 * noise(rng));
    }
  }
}

}  // namespace rekindle::data
