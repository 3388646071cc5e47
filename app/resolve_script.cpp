// The options of a Python script, in place of those of a built-in model.
#include <algorithm>
#include <iterator>
#include <utility>

#include "app/resolver.hpp"
#include "app/spellings.hpp"
#include "base/text.hpp"
#include "protocol/training.hpp"

namespace rekindle::app {

Status Resolver::of_script() {
  const std::pair<const char*, bool> of_other_models[] = {{"model", raw_.model != RawOptions().model},
                                                          {"dataset", !raw_.dataset.empty()},
                                                          {"data", !raw_.data.empty()},
                                                          {"classes", raw_.classes.has_value()},
                                                          {"image-size", raw_.image_size.has_value()},
                                                          {"augment", !raw_.augment.empty()},
                                                          {"skip-corrupt", raw_.skip_corrupt},
                                                          {"dropout", raw_.dropout.has_value()},
                                                          {"layers", raw_.layers.has_value()},
                                                          {"heads", raw_.heads.has_value()},
                                                          {"width", raw_.width.has_value()},
                                                          {"model-options", !raw_.model_options.empty()},
                                                          {"context", raw_.context.has_value()},
                                                          {"reset-head", raw_.reset_head},
                                                          {"label-smoothing", raw_.label_smoothing > 0}};
  for (const auto& [name, given] : of_other_models) {
    if (!given) continue;
    std::string argument = name;
    std::ranges::replace(argument, '-', '_');
    for (const auto& in_call : script_->options)
      if (usual_name(in_call.first) == name)
        return refuse({name}, str(argument, " is an option of the built-in models, and no argument of run()"),
                      "the model, the loss and the data sets decide that: leave it out");
    return refuse({name}, str("--", name, " is an option of the built-in models, not of a script"),
                  "the script itself decides that: give it as an argument behind the script");
  }
  job_.task.python = script_->python;
  job_.task.script_metrics = script_->metrics;
  job_.task.script_tied = script_->tied;
  job_.train_samples = script_->train_samples;
  job_.test_samples = script_->test_samples;
  job_.task.model = job_.task.dataset = "";
  return {};
}

Status Resolver::optimizer_of_script() {
  Given of_ours = {{"lr", raw_.lr.has_value()},
                   {"weight-decay", raw_.weight_decay.has_value()},
                   {"no-decay", !raw_.no_decay.empty()},
                   {"lr-scale", !raw_.lr_scale.empty()}};
  std::ranges::copy(formula_options(), std::back_inserter(of_ours));
  for (const auto& [name, given] : of_ours) {
    if (given)
      return refuse({name}, str("--", name, " with an optimizer that the script makes"),
                    "the script sets that, or uses an optimizer of rekindle");
  }
  job_.optimizer = protocol::kScriptsOptimizer;
  job_.lr = 1;
  job_.momentum = job_.weight_decay = 0;
  return {};
}

}  // namespace rekindle::app
