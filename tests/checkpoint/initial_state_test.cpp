#include "checkpoint/initial_state.hpp"

#include "checkpoint/tensor_file.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

StateSpec model_of(std::int64_t classes, const std::vector<std::string>& optimizer = {"momentum."}) {
  const StateSpec weights = {{"conv.weight", Dtype::kFloat32, {4, 3}, Role::kParameter},
                             {"conv.bias", Dtype::kFloat32, {4}, Role::kParameter},
                             {"fc.weight", Dtype::kFloat32, {classes, 4}, Role::kParameter},
                             {"fc.bias", Dtype::kFloat32, {classes}, Role::kParameter}};
  StateSpec spec = weights;
  for (const std::string& prefix : optimizer) {
    for (const TensorSpec& tensor : weights)
      spec.push_back({prefix + tensor.name, tensor.dtype, tensor.shape, Role::kOptimizer});
  }
  return spec;
}

// The state as in a file: in another order, and without roles.
State as_file(const OwnedState& owned, bool with_optimizer) {
  State state;
  for (const Tensor& tensor : owned.state) {
    if (!with_optimizer && tensor.spec.role == Role::kOptimizer) continue;
    state.push_back(tensor);
    state.back().spec.role = Role::kParameter;
  }
  std::ranges::reverse(state);
  return state;
}

std::vector<std::string> names(const StateSpec& spec) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : spec) names.push_back(tensor.name);
  return names;
}

void refused(const StateSpec& file, const StateSpec& model, bool reset_head, const std::string& why) {
  const auto chosen = choose_initial(file, model, reset_head, "FILE");
  ASSERT_FALSE(chosen) << why;
  EXPECT_EQ(chosen.error().code, ExitCode::kConfig);
  EXPECT_NE(chosen.error().line().find(why), std::string::npos) << chosen.error().line();
}

TEST(Initial, TheWholeState_InTheModelsOrderAndRoles) {
  const OwnedState owned(model_of(10));
  const State file = as_file(owned, true);
  const auto chosen = choose_initial(spec_of(file), model_of(10), false, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(*chosen, model_of(10));
  const auto read = read_tensors(source_of(file), *chosen);
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(initial_hash(read->state), state_digest(0, owned.state).hex());
}

TEST(Initial, WithoutMomentum_TheWeightsAlone) {
  const OwnedState owned(model_of(10));
  const auto chosen = choose_initial(spec_of(as_file(owned, false)), model_of(10), false, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(*chosen, model_of(10, {}));
}

TEST(Initial, ABatchNormOfAnOldFile_HasNoCounter) {
  const TensorSpec mean = {"bn.running_mean", Dtype::kFloat32, {4}, Role::kBuffer},
                   var = {"bn.running_var", Dtype::kFloat32, {4}, Role::kBuffer},
                   counter = {"bn.num_batches_tracked", Dtype::kInt64, {}, Role::kBuffer};
  const auto chosen = choose_initial({mean, var}, {mean, var, counter}, false, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(*chosen, (StateSpec{mean, var}));
  refused({mean}, {mean, counter}, false, "FILE lacks tensor bn.num_batches_tracked");
}

TEST(Initial, TheStateOfAnotherOptimizer_IsLeftOut) {
  const OwnedState owned(model_of(10, {"square_avg.", "acc_delta."}));
  const auto chosen = choose_initial(spec_of(as_file(owned, true)), model_of(10), false, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(*chosen, model_of(10, {}));
}

// rmsprop has a momentum, too, of gradients that it has scaled.
TEST(Initial, AMomentumOfAnotherOptimizer_IsLeftOut) {
  const StateSpec rmsprop = model_of(10, {"square_avg.", "momentum."});
  EXPECT_EQ(choose_initial(rmsprop, model_of(10), false, "FILE").value(), model_of(10, {}));
  EXPECT_EQ(choose_initial(rmsprop, rmsprop, false, "FILE").value(), rmsprop);
  const StateSpec average = model_of(10, {"ema."});
  EXPECT_EQ(choose_initial(model_of(10, {"momentum.", "ema."}), average, false, "FILE").value(), average);
}

TEST(Initial, TiedWeightsUnderAnyOfTheirNames_AreTaken) {
  const std::vector<OtherName> others = {{"head.weight", "fc.weight"}, {"tail.weight", "fc.weight"}};
  StateSpec file = model_of(10, {});
  for (const char* name : {"fc.weight", "tail.weight", "head.weight"}) {
    StateSpec named = file;
    named[2].name = name;
    use_first_names(named, others);
    const auto chosen = choose_initial(named, file, false, "FILE", others);
    ASSERT_TRUE(chosen) << name << chosen.error().line();
    EXPECT_EQ(*chosen, file) << name;
  }
  StateSpec both = file;
  both.push_back(file[2]);
  both.back().name = "head.weight";
  use_first_names(both, others);
  EXPECT_EQ(both.back().name, "head.weight");
}

TEST(Initial, NamesOfAWrapper_AreSaid) {
  for (const std::string wrapper : {"module.", "_orig_mod."}) {
    StateSpec file = model_of(10, {});
    for (TensorSpec& tensor : file) tensor.name = wrapper + tensor.name;
    refused(file, model_of(10), false,
            "FILE lacks tensor conv.weight: its names begin with " + wrapper + ": save the state_dict()");
  }
}

// A script has no --reset-head, and loads other tensors itself.
TEST(Initial, TensorsOfAnotherModel_HaveTheCallersHint) {
  const auto hint = [](const StateSpec& file) {
    const auto chosen = choose_initial(file, model_of(10, {}), false, "FILE", {}, "in the script");
    return chosen ? "" : chosen.error().hint;
  };
  const StateSpec whole = model_of(10, {});
  EXPECT_EQ(hint(model_of(1000, {})), "in the script");
  EXPECT_EQ(hint({whole.begin(), whole.end() - 1}), "in the script");
  StateSpec file = whole;
  file.push_back({"fc2.weight", Dtype::kFloat32, {2, 4}, Role::kParameter});
  EXPECT_EQ(hint(file), "in the script");
  file = whole;
  file[0].shape = {3, 4};
  EXPECT_EQ(hint(file), "in the script");
  file[0] = {"conv.weight", Dtype::kFloat16, {4, 3}, Role::kParameter};
  EXPECT_EQ(hint(file), "it must be of the same model, in the same precision");
  file = whole;
  for (TensorSpec& tensor : file) tensor.name = "module." + tensor.name;
  EXPECT_EQ(hint(file), "its names begin with module.: save the state_dict() of the module inside");
}

TEST(Initial, AnotherNumberOfClasses_IsRefusedUnlessTheHeadIsReset) {
  const OwnedState owned(model_of(1000));
  const StateSpec file = spec_of(as_file(owned, true));
  refused(file, model_of(10), false, "FILE is for 1000 classes, this run has 10: add --reset-head");
  const auto chosen = choose_initial(file, model_of(10), true, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(names(*chosen), (std::vector<std::string>{"conv.weight", "conv.bias", "momentum.conv.weight",
                                                      "momentum.conv.bias"}));
  // The head is also reset if it would fit, and may be missing in the file.
  EXPECT_EQ(choose_initial(file, model_of(1000), true, "FILE")->size(), 4U);
  StateSpec headless = spec_of(as_file(owned, false));
  std::erase_if(headless, [](const TensorSpec& tensor) { return tensor.name.starts_with("fc."); });
  EXPECT_EQ(choose_initial(headless, model_of(10), true, "FILE")->size(), 2U);
  refused(headless, model_of(10), false, "FILE lacks tensor fc.weight");
}

TEST(Initial, TensorsThatDoNotFit_AreNamed) {
  const OwnedState owned(model_of(10));
  const StateSpec file = spec_of(as_file(owned, false));
  refused({file.begin(), file.end() - 1}, model_of(10), false, "FILE lacks tensor conv.weight");
  StateSpec wrong = file;
  wrong.back().shape = {3, 4};
  refused(wrong, model_of(10), false,
          "tensor conv.weight is float32 [3, 4] in FILE, the model's is float32 [4, 3]");
  wrong = file;
  wrong.back().dtype = Dtype::kBfloat16;
  refused(wrong, model_of(10), false, "tensor conv.weight is bfloat16 [4, 3] in FILE");
  wrong = file;
  wrong.push_back(file.back());
  wrong.back().name = "conv.scale";
  refused(wrong, model_of(10), false, "FILE has a tensor conv.scale");
  wrong.back().name = "momentum.conv.scale";
  refused(wrong, model_of(10), false, "FILE has a tensor momentum.conv.scale");
  wrong = spec_of(as_file(owned, true));
  std::ranges::find(wrong, "momentum.fc.bias", &TensorSpec::name)->shape = {9};
  refused(wrong, model_of(10), false, "tensor momentum.fc.bias is float32 [9] in FILE");
}

TEST(Initial, AnOptimizerThatIsThereInPart_StartsAtZero) {
  StateSpec file = spec_of(as_file(OwnedState(model_of(10)), true));
  std::erase_if(file, [](const TensorSpec& tensor) { return tensor.name == "momentum.fc.bias"; });
  const auto chosen = choose_initial(file, model_of(10), false, "FILE");
  ASSERT_TRUE(chosen) << chosen.error().line();
  EXPECT_EQ(*chosen, model_of(10, {}));
}

// Of a run with Adam and a moving average, for a run with SGD, and the other way round.
TEST(Initial, MomentsAveragesAndCounters_AreAllTakenOrNone) {
  const TensorSpec updates = {kUpdateCounters, Dtype::kInt32, {5}, Role::kOptimizer};
  StateSpec adam = model_of(10, {"exp_avg.", "exp_avg_sq.", "ema."});
  adam.push_back(updates);
  for (const Role role : {Role::kOptimizer, Role::kParameter}) {  // of a checkpoint, and of a file
    StateSpec source = adam;
    for (TensorSpec& tensor : source) tensor.role = role;
    EXPECT_EQ(choose_initial(source, adam, false, "FILE").value(), adam);
    EXPECT_EQ(choose_initial(source, model_of(10), false, "FILE").value(), model_of(10, {}));
    EXPECT_EQ(names(choose_initial(source, adam, true, "FILE").value()),
              (std::vector<std::string>{"conv.weight", "conv.bias"}))
        << "an average of zeros, with the counts of another head";
  }
  StateSpec clipped = model_of(10);
  clipped.push_back(updates);
  EXPECT_EQ(choose_initial(model_of(10), clipped, false, "FILE").value(), model_of(10, {}));
}

class InitialFile : public CheckpointTest {
 protected:
  fs::path file = run_dir / "init.safetensors";
};

TEST_F(InitialFile, IsLoadedBitForBit_AndWhatItLacksStays) {
  const OwnedState owned(model_of(10), 1);
  const State given = as_file(owned, false);
  const auto spec = choose_initial(spec_of(given), model_of(10), true, "FILE");
  ASSERT_TRUE(spec) << spec.error().line();
  const auto chosen = read_tensors(source_of(given), *spec);
  ASSERT_TRUE(chosen) << chosen.error().line();
  ASSERT_TRUE(keep_initial(file, chosen->state));
  OwnedState replica(model_of(10), 2);
  const OwnedState fresh(model_of(10), 2);
  const Status loaded = load_initial(file, initial_hash(chosen->state), replica.state);
  ASSERT_TRUE(loaded) << loaded.error().line();
  EXPECT_EQ(replica.storage[0], owned.storage[0]);
  EXPECT_EQ(replica.storage[1], owned.storage[1]);
  for (std::size_t i = 2; i < replica.storage.size(); ++i) EXPECT_EQ(replica.storage[i], fresh.storage[i]);
}

TEST_F(InitialFile, IsWrittenOnce_AndAgainWhenItIsDamaged) {
  const OwnedState owned(model_of(10, {}));
  ASSERT_TRUE(keep_initial(file, owned.state));
  const auto written = fs::last_write_time(file);
  ASSERT_TRUE(keep_initial(file, owned.state));
  EXPECT_EQ(fs::last_write_time(file), written);
  flip_bit(file, fs::file_size(file) - 1, 3);
  OwnedState replica(model_of(10));
  const std::string hash = initial_hash(owned.state);
  const Status loaded = load_initial(file, hash, replica.state);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().what.find("is not what the run was started from"), std::string::npos);
  ASSERT_TRUE(keep_initial(file, owned.state));
  EXPECT_TRUE(load_initial(file, hash, replica.state));
  EXPECT_FALSE(load_initial(run_dir / "none.safetensors", hash, replica.state));
}

TEST_F(InitialFile, OfAnotherModel_IsRefused) {
  const OwnedState owned(model_of(10, {}));
  ASSERT_TRUE(keep_initial(file, owned.state));
  OwnedState replica(model_of(11));
  EXPECT_FALSE(load_initial(file, initial_hash(owned.state), replica.state));
}

}  // namespace
}  // namespace rekindle::checkpoint
