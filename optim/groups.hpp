#pragma once
namespace rekindle::optim {
struct Group {
  double lr_scale = 1;
  bool decays = true;
};
}  // namespace rekindle::optim
