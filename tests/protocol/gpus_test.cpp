// Trainers on GPUs: what the user reads about them, and --exchange nccl, which needs a GPU for each.
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
  static Lines lines(const std::vector<TrainerReady>& members, const std::string& exchange = "auto") {
    std::vector<const TrainerReady*> all;
    for (const TrainerReady& each : members) all.push_back(&each);
    return gpu_lines(all, exchange);
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

TEST_F(Gpus, SharedButNotForNccl_ByNccl) {
  TrainerReady a = on("a", "1"), b = on("b", "1");
  a.address.nccl += "@one";
  b.address.nccl += "@two";
  EXPECT_EQ(lines({a, b}),
            (Lines{"2 trainers share one GPU", "gradients go from GPU to GPU by NCCL 2.28.9"}));
}

TEST_F(Gpus, NoNcclOrAnotherExchange_TheReasonIsSaid) {
  EXPECT_EQ(lines({on("a", "1"), on("b", "2", "")}),
            Lines{"gradients go through host memory: there is no NCCL on h"});
  EXPECT_EQ(lines({on("a", "1"), on("b", "2")}, "tcp"),
            Lines{"gradients go through host memory: --exchange tcp"});
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

}  // namespace
}  // namespace rekindle::protocol
