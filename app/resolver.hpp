// Internal to resolve_*.cpp: the options of the command line become a job.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/known_names.hpp"
#include "app/options.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "optim/optimizer.hpp"
#include "protocol/job.hpp"

namespace rekindle::app {

inline bool is_on(const std::string& value) { return value == "on" || value == "true"; }

class Resolver {
 public:
  // `script`: nullptr if a C++ model is trained.
  Resolver(const RawOptions& raw, const AskNames& ask, std::set<std::string>& wrong,
           const ScriptDescription* script)
      : raw_(raw), ask_(ask), wrong_(wrong), script_(script) {}

  Result<LocalOptions> resolve() {
    REKINDLE_CHECK(paths());
    REKINDLE_CHECK(script_ != nullptr ? of_script() : model_and_data());
    REKINDLE_CHECK(seed_and_precision());
    REKINDLE_CHECK(batch());
    REKINDLE_CHECK(length());
    REKINDLE_CHECK(optimizer());
    REKINDLE_CHECK(computing());
    REKINDLE_CHECK(checkpoints_and_failures());
    REKINDLE_CHECK(watching());
    REKINDLE_CHECK(network());
    return std::move(options_);
  }

 private:
  using Names = std::vector<std::string>;

  tl::unexpected<Error> refuse(const Names& names, const std::string& what, const std::string& hint);
  Status one_of(const std::string& name, const std::string& value, const std::vector<std::string>& allowed);
  Status duration(std::uint64_t& milliseconds, const std::string& name, const std::string& text);
  Status paths();
  bool is_mnist_cnn() const { return raw_.model == "mnist-cnn"; }
  // Finds a name in a list of known_; if it is not there, asks the trainer program once.
  template <class Known>
  Result<Known> find(std::vector<Known> KnownNames::*list, const std::string& name, const char* option,
                     const std::string& unknown);
  // The trainer program refuses what a model cannot be built from (app/describe.hpp).
  Status model_sizes(const KnownModel& model, const KnownDataset& dataset);
  Status model_options(const KnownModel& model);
  Status augmentation(const KnownDataset& dataset);
  Status model_and_data();
  // In place of model_and_data().
  Status of_script();
  Status seed_and_precision();
  Status batch();
  Status length();
  // An option that the optimizer does not have would be ignored in silence.
  using Given = std::vector<std::pair<const char*, bool>>;  // names of options, and whether each was given
  Given formula_options() const;                            // which some optimizers have, and others not
  Status check_given(const optim::Row& row);
  Status optimizer();
  Status optimizer_of_script();
  Status optimizer_of_rekindle();
  Status schedule();
  Status device();
  Status trainers_per_worker();
  Status computing();
  Status checkpoints_and_failures();
  Status best_metric();
  Status watching();
  Status network();

  const RawOptions& raw_;
  const AskNames& ask_;  // may be empty
  KnownNames known_ = built_in_names();
  bool asked_ = false;  // known_ is the trainer program's answer
  std::set<std::string>& wrong_;
  const ScriptDescription* const script_;
  LocalOptions options_;
  protocol::Job& job_ = options_.job;
};

}  // namespace rekindle::app
