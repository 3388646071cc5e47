#include "model/state_spec.hpp"

#include "model/layout.hpp"

namespace rekindle::model {

Result<checkpoint::StateSpec> state_spec(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  const Layout layout = parameter_layout(config);
  checkpoint::StateSpec spec;
  const auto add = [&](const std::string& prefix, checkpoint::Role role) {
    for (const TensorPlace& place : layout.tensors)
      spec.push_back({prefix + place.name, checkpoint::Dtype::kFloat32, place.shape, role});
  };
  add("", checkpoint::Role::kParameter);
  for (const std::string& arena : optimizer_arenas(config)) add(arena + ".", checkpoint::Role::kOptimizer);
  return spec;
}

}  // namespace rekindle::model
