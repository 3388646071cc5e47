// Trainers on GPUs: what the user reads about them, and --exchange nccl, which needs a GPU for each.
#include <algorithm>

#include "coordinator_fixture.hpp"
#include "protocol/gpu_lines.hpp"

namespace rekindle::protocol {
namespace {

using Lines = std::vector<std::string>;

class Gpus : public CoordinatorTest {
 protected:
  static TrainerReady on(const std::string& trainer, const std::string& gpu,
                         const std::string& nccl = "22809") {
    Address address;
    if (!nccl.empty()) address.nccl = str(nccl, " ", gpu);
    TrainerReady ready{trainer, "h", "cuda:0", "{}", address, 1};
    ready.gpu = "a GPU";
    ready.gpu_identity = gpu;
    return ready;
  }
  static Lines lines(const std::vector<TrainerReady>& members, const std::string& exchange = "auto",
                     int micro_batches = 16) {
    std::vector<const TrainerReady*> all;
    all.reserve(members.size());
    for (const TrainerReady& each : members) all.push_back(&each);
    return gpu_lines(all, exchange, micro_batches);
  }
  std::vector<Effect> come(const TrainerReady& ready) { return say(ready, enter("w-h")); }
  std::vector<Effect> join(const TrainerReady& ready) {
    const std::string worker = str("w-", ready.trainer);
    workers_.insert(worker);
    feed(WorkerRegistered{{worker, "h", "build", 1, {}, true}});
    return say(ready, worker);
  }
};

TEST_F(Gpus, OneEach_ByNccl) {
  EXPECT_EQ(lines({on("a", "1"), on("b", "2")}), Lines{"gradients go from GPU to GPU by NCCL 2.28.9"});
}

TEST_F(Gpus, Shared_SaidWithTheWayOfTheGradients) {
  const std::string through = "gradients go through host memory: NCCL needs a GPU for each trainer";
  EXPECT_EQ(lines({on("a", "1"), on("b", "1")}), (Lines{"2 trainers share one GPU", through}));
  EXPECT_EQ(lines({on("a", "1"), on("b", "1"), on("c", "2")}), (Lines{"2 trainers share one GPU", through}));
  EXPECT_EQ(lines({on("a", "1"), on("b", "2"), on("c", "1"), on("d", "2"), on("e", "2"), on("f", "3")}),
            (Lines{"5 trainers share 2 GPUs", through}));
}

// --nodes=2 --gpus=6 may give four and two, and each node has as many trainers as the first one has GPUs.
TEST_F(Gpus, NodesWithDifferentNumbersOfGpus_SaidWhereGpusAreShared) {
  std::vector<TrainerReady> all = {on("a", "1"), on("b", "2"), on("c", "3"), on("d", "3")};
  all[0].gpus = all[1].gpus = 2;
  all[2].gpus = all[3].gpus = 1;
  all[2].host = all[3].host = "i";
  EXPECT_EQ(lines(all),
            (Lines{"2 trainers share one GPU",
                   "i has 1 GPU and h has 2: in a Slurm job, --gpus-per-node gives each node as many",
                   "gradients go through host memory: NCCL needs a GPU for each trainer"}));
  all.pop_back();
  EXPECT_EQ(lines(all), Lines{"gradients go from GPU to GPU by NCCL 2.28.9"});
}

TEST_F(Gpus, SharedButNotForNccl_ByNccl) {
  TrainerReady a = on("a", "1"), b = on("b", "1");
  a.address.nccl += "@one";
  b.address.nccl += "@two";
  EXPECT_EQ(lines({a, b}),
            (Lines{"2 trainers share one GPU", "gradients go from GPU to GPU by NCCL 2.28.9"}));
}

TEST_F(Gpus, NoNcclOrAnotherExchange_TheReasonIsSaid) {
  EXPECT_EQ(lines({on("a", "1"), on("b", "2", "")}), Lines{"gradients go through host memory: no NCCL on h"});
  TrainerReady old = on("b", "2", "");
  old.no_nccl = "NCCL 2.17.1 is too old";
  EXPECT_EQ(lines({on("a", "1"), old}),
            Lines{"gradients go through host memory: no NCCL on h: NCCL 2.17.1 is too old"});
  EXPECT_EQ(lines({on("a", "1"), on("b", "2")}, "tcp"),
            Lines{"gradients go through host memory: --exchange tcp"});
}

TEST_F(Gpus, MorePartialSumsThanAKernelAdds_TheReasonIsSaid) {
  std::vector<TrainerReady> many;
  many.reserve(255);
  for (int i = 0; i < 255; ++i) many.push_back(on(str("t", i), str("gpu", i)));
  EXPECT_EQ(lines(many, "auto", 256), Lines{"gradients go from GPU to GPU by NCCL 2.28.9"});
  EXPECT_EQ(lines(many, "auto", 1024),
            Lines{"gradients go through host memory: so many trainers have 574 partial sums, and 256 are the "
                  "most with NCCL"});
}

TEST_F(Gpus, GpusWithoutATrainer_SaidOnceWithWhatWouldUseThem) {
  const auto idle = [](std::vector<TrainerReady> trainers, const std::vector<int>& seen) {
    std::vector<const TrainerReady*> all;
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      trainers[i].gpus = seen[i];
      all.push_back(&trainers[i]);
    }
    return idle_gpus(all);
  };
  const std::string more = ": --trainers-per-worker N (or --workers N) starts more trainers";
  EXPECT_EQ(idle({on("a", "1")}, {1}), "");
  EXPECT_EQ(idle({on("a", "", "")}, {0}), "");
  EXPECT_EQ(idle({on("a", "1")}, {4}), "this run uses 1 of 4 GPUs on h" + more);
  EXPECT_EQ(idle({on("a", "1"), on("b", "2")}, {2, 2}), "");
  TrainerReady elsewhere = on("c", "3");
  elsewhere.host = "i";
  EXPECT_EQ(idle({on("a", "1"), on("b", "2"), elsewhere}, {4, 4, 2}),
            "this run uses 2 of 4 GPUs on h, 1 of 2 GPUs on i" + more);
}

TEST_F(Gpus, IdleGpusAtTheStart_NotWhenATrainerIsLost) {
  const auto said = [](const std::vector<Effect>& effects) {
    return std::ranges::count_if(of<Info>(effects),
                                 [](const Info& info) { return info.line.starts_with("this run uses "); });
  };
  begin();
  TrainerReady a = on("a", "1"), b = on("b", "2");
  a.gpus = b.gpus = 4;
  come(a);
  EXPECT_EQ(said(come(b)), 1);
  say(TrainerExited{"b", true, 9});
  pause("a", 0, PauseReason::kExchangeFailed);
  pass(Time(2000));
  b.trainer = "c";
  come(b);
  pass(Time(2000));
  pause("a", 0, PauseReason::kAgreed);
  EXPECT_GE(sent<Start>(all_).size(), 3U);
  EXPECT_EQ(said(all_), 1);
}

TEST_F(Gpus, OneTrainerOrCpus_NothingToSay) {
  EXPECT_EQ(lines({on("a", "1")}), Lines{});
  EXPECT_EQ(lines({on("a", "", ""), on("b", "", "")}), Lines{});
}

TEST_F(Gpus, StartTable_HasTheNumberOfTheGpuAndTheLines) {
  begin();
  come(on("a", "1"));
  std::string shown;
  for (const Info& info : of<Info>(come(on("b", "1")))) shown += info.line + "\n";
  EXPECT_NE(shown.find(" cuda:0 "), std::string::npos) << shown;
  EXPECT_NE(shown.find("\n2 trainers share one GPU\ngradients go through host memory: "), std::string::npos)
      << shown;
}

TEST_F(Gpus, TwoOnOneWithExchangeNccl_TheRunEndsBeforeItBegins) {
  config_.job.exchange = "nccl";
  begin();
  come(on("a", "1"));
  EXPECT_TRUE(sent<Start>(come(on("b", "1"))).empty());
  say(TrainerExited{"a", false, 0});
  say(TrainerExited{"b", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_EQ(finish()->line,
            "trainers a and b on h share one GPU, and --exchange nccl needs a GPU for each trainer");
}

TEST_F(Gpus, OneEachWithExchangeNccl_Begins) {
  config_.job.exchange = "nccl";
  begin();
  come(on("a", "1"));
  EXPECT_EQ(sent<Start>(come(on("b", "2"))).size(), 2U);
}

TEST_F(Gpus, JoinedOnATakenGpuWithExchangeNccl_SentAwayAndTheRunGoesOn) {
  config_.job.exchange = "nccl";
  for (const bool before : {false, true}) {
    begin();
    if (before) join(on("0", "1"));
    come(on("a", "1"));
    EXPECT_EQ(sent<Start>(come(on("b", "2"))).size(), 2U);
    if (!before) {
      join(on("0", "1"));
      pass(Time(2000));
      pause("a", 0, PauseReason::kAgreed);
      pause("b", 0, PauseReason::kAgreed);
    }
    ASSERT_EQ(of<Dismiss>(all_).size(), 1U);
    EXPECT_EQ(of<Dismiss>(all_)[0].worker, "w-0");
    EXPECT_EQ(machine_->members(), (std::vector<std::string>{"a", "b"}));
    EXPECT_FALSE(finish());
  }
}

// The trainers with GPUs of their own are not ready yet.
TEST_F(Gpus, TheFirstOfAJoinedWorkersTrainersSharesAGpuWithExchangeNccl_TheOthersCome) {
  config_.job.exchange = "nccl";
  begin();
  come(on("a", "1"));
  EXPECT_EQ(sent<Start>(come(on("b", "2"))).size(), 2U);
  workers_.insert("w-join");
  feed(WorkerRegistered{{"w-join", "h", "build", 2, {}, true}});
  const auto next_generation = [this](const std::vector<std::string>& members) {
    say(StepDone{.generation = machine_->generation(), .step = machine_->members().size()});
    pass(Time(2000));
    for (const std::string& each : members) pause(each, machine_->members().size(), PauseReason::kAgreed);
  };
  say(on("c", "2"), "w-join");
  next_generation({"a", "b"});
  EXPECT_TRUE(of<Dismiss>(all_).empty());
  EXPECT_EQ(machine_->members(), (std::vector<std::string>{"a", "b"}));
  say(on("d", "3"), "w-join");
  next_generation({"a", "b"});
  EXPECT_EQ(machine_->members(), (std::vector<std::string>{"a", "b", "d"}));
}

// A GPU is lost in mid-run, and the trainer that replaces another one finds none of its own.
TEST_F(Gpus, OneOfAWorkersTrainersSharesAGpuWithExchangeNccl_OnlyItIsLeftOut) {
  config_.job.exchange = "nccl";
  config_.expected_trainers = 3;
  begin();
  come(on("a", "1"));
  come(on("b", "2"));
  EXPECT_EQ(sent<Start>(come(on("c", "3"))).size(), 3U);
  say(TrainerExited{"c", false, 70});
  for (const char* name : {"a", "b"}) pause(name, 0, PauseReason::kExchangeFailed);
  pass(Time(2000));
  come(on("d", "2"));
  pass(Time(2000));
  for (const char* name : {"a", "b"}) pause(name, 0, PauseReason::kAgreed);
  EXPECT_EQ(sent<Quit>(all_).size(), 1U);
  EXPECT_TRUE(of<Dismiss>(all_).empty());
  EXPECT_EQ(machine_->members(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace rekindle::protocol
