#include "model/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "optim/exact_math.hpp"

namespace rekindle::model {
namespace {

using at::Tensor;
using optim::Options;
using optim::Step;

// The formulas are those of optim/NAME.cpp. `g` holds the summed gradient and is overwritten. `t` are the
// pieces of the arenas: parameters, then the optimizer's states.
using OnDevice = void (*)(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g);

void take_gradient(const Options& o, const Step& step, const Tensor& p, const Tensor& g) {
  g.mul_(step.scale);
  if (o.weight_decay != 0) g.add_(p, o.weight_decay);
}

void sgd(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  take_gradient(o, step, t[0], g);
  if (t.size() == 1) {
    t[0].sub_(g, step.learning_rate);
    return;
  }
  t[1].mul_(o.momentum).add_(g, step.number == 0 ? 1 : 1 - o.dampening);
  t[0].sub_(o.nesterov ? g.add_(t[1], o.momentum) : t[1], step.learning_rate);
}

void adam_step(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  const double correction1 = 1 - optim::power(o.beta1, step.number + 1);
  const double correction2 = 1 - optim::power(o.beta2, step.number + 1);
  t[1].mul_(o.beta1).add_(g, 1 - o.beta1);
  t[2].mul_(o.beta2).addcmul_(g, g, 1 - o.beta2);
  t[0].addcdiv_(t[1], t[2].sqrt().div_(std::sqrt(correction2)).add_(*o.eps),
                -step.learning_rate / correction1);
}
void adam(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  take_gradient(o, step, t[0], g);
  adam_step(o, step, t, g);
}
void adamw(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  g.mul_(step.scale);
  t[0].mul_(1 - step.learning_rate * o.weight_decay);
  adam_step(o, step, t, g);
}

void adadelta(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  take_gradient(o, step, t[0], g);
  const Tensor &s = t[1], &a = t[2];
  s.mul_(o.rho).addcmul_(g, g, 1 - o.rho);
  const Tensor d = a.add(*o.eps).sqrt_().div_(s.add(*o.eps).sqrt_()).mul_(g);
  a.mul_(o.rho).addcmul_(d, d, 1 - o.rho);
  t[0].sub_(d, step.learning_rate);
}

void rmsprop(const Options& o, const Step& step, const std::vector<Tensor>& t, const Tensor& g) {
  take_gradient(o, step, t[0], g);
  t[1].mul_(o.alpha).addcmul_(g, g, 1 - o.alpha);
  g.div_(t[1].sqrt().add_(*o.eps));
  t[0].sub_(t.size() > 2 ? t[2].mul_(o.momentum).add_(g) : g, step.learning_rate);
}

constexpr std::pair<const char*, OnDevice> kOnDevice[] = {
    {"sgd", sgd}, {"adam", adam}, {"adamw", adamw}, {"adadelta", adadelta}, {"rmsprop", rmsprop}};

OnDevice on_device(const std::string& name) {
  return std::ranges::find_if(kOnDevice, [&](const auto& row) { return name == row.first; })->second;
}

}  // namespace

void update_on_device(Options options, const Step& step, const std::vector<Tensor>& tensors,
                      const Tensor& sum) {
  options.eps = options.eps.value_or(optim::find_optimizer(options.name)->eps);
  on_device(options.name)(options, step, tensors, sum);
}

}  // namespace rekindle::model
