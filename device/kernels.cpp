#include "device/kernels.hpp"

#include <algorithm>

namespace rekindle::device {
namespace {

void run(const Fill& k) { std::fill_n(k.to, k.count, k.value); }

void run(const AddInto& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = k.to[i] + k.from[i];
}

void run(const TreeSum& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = tree_sum(k, i);
}

void run(const SgdUpdate& k) {
  for (std::size_t i = 0; i < k.count; ++i)
    sgd(k.numbers, k.parameters[i], k.momentum == nullptr ? nullptr : k.momentum + i, k.sum[i]);
}

}  // namespace

void run_on_host(const Kernel& kernel) {
  std::visit([](const auto& each) { run(each); }, kernel);
}

}  // namespace rekindle::device
