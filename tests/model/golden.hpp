// The formulas of tests/oracle/hashed.py: initial values, samples and sketches from a hash.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace rekindle::model::golden {

enum Purpose : std::uint64_t { kValues = 1, kImages, kLabels, kSigns, kTokens };

inline Rng stream(Purpose purpose, std::uint64_t part) {
  return Rng(((static_cast<std::uint64_t>(purpose) << 32) + part) * 0x9e3779b97f4a7c15ULL);
}

// Uniform in [-bound, bound).
inline float uniform(Rng& rng, float bound) { return (rng.unit() * 2 - 1) * bound; }

inline void fill_uniform(std::span<float> out, Purpose purpose, std::uint64_t part, float bound) {
  Rng rng = stream(purpose, part);
  for (float& element : out) element = uniform(rng, bound);
}

inline std::vector<std::int64_t> integers(Purpose purpose, std::uint64_t part, std::size_t count, int below) {
  Rng rng = stream(purpose, part);
  std::vector<std::int64_t> out(count);
  for (std::int64_t& each : out)
    each = static_cast<std::int64_t>(rng.next() % static_cast<std::uint64_t>(below));
  return out;
}

// How a parameter's initial values are drawn. The scale of a normalization is followed by its shift.
enum class Rule { kWeight, kScale, kShift, kBias };

inline Rule rule_of(const std::string& name, std::span<const std::int64_t> shape, Rule before) {
  if (shape.size() > 1) return Rule::kWeight;
  if (name.ends_with("weight")) return Rule::kScale;
  return before == Rule::kScale ? Rule::kShift : Rule::kBias;
}

// The initial values of a parameter, one after the other.
class Initial {
 public:
  Initial(std::uint64_t index, Rule rule, std::span<const std::int64_t> shape)
      : rng_(stream(kValues, index)), rule_(rule) {
    double fan_in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= static_cast<double>(shape[i]);
    bound_ = rule == Rule::kWeight  ? static_cast<float>(std::sqrt(4 / fan_in))
             : rule == Rule::kShift ? 1.0F
                                    : 0.0625F;
  }

  float next() {
    const float u = uniform(rng_, bound_);
    if (rule_ == Rule::kShift) return (u < -0.5F ? -7.0F : 2.0F) + u * 0.125F;
    return rule_ == Rule::kScale ? 0.5F + u : u;
  }

 private:
  Rng rng_;
  Rule rule_;
  float bound_ = 0;
};

// Each element goes to a random bucket with a random sign (Charikar, Chen, Farach-Colton 2002). The norm of
// the difference of two sketches is an estimate of the norm of the difference of the tensors: the square is
// unbiased with a deviation of sqrt(2 / buckets).
class Sketch {
 public:
  Sketch(std::uint64_t index, std::size_t count)
      : rng_(stream(kSigns, index)), buckets_(count > std::size_t{1} << 20 ? 64 : 16) {}

  void add(double value) {
    const std::uint64_t bits = rng_.next();
    buckets_[(bits >> 1) % buckets_.size()] += (bits & 1) != 0 ? -value : value;
  }
  const std::vector<double>& buckets() const { return buckets_; }

 private:
  Rng rng_;
  std::vector<double> buckets_;
};

}  // namespace rekindle::model::golden
