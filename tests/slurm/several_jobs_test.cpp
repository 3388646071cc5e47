// Jobs beside each other: arrays, and helpers of a run that come and go.
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

// ---- arrays ----

TEST_F(Slurm, EachArrayTaskRequeuesOnlyItself) {
  const fs::path root = scratch_ / "seed-%a";
  Arguments arguments = mnist_run(root, 1, 1000000);
  const fs::path path = scratch_ / "array.sh";
  std::ofstream out(path);
  out << "#!/bin/bash\n#SBATCH --requeue --open-mode=append --signal=B:USR1@30 --exclusive --nodes=1 "
         "--array=0-1\n"
      << "#SBATCH --output=" << (scratch_ / "out-%a").string() << "\nexec " << rekindle()
      << " slurm --seed $SLURM_ARRAY_TASK_ID";
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (i < 3 || i > 4) out << " '" << arguments[i] << "'";
  }
  out << "\n";
  out.close();
  job_ = cluster_->submit({}, path);
  const fs::path first = scratch_ / "seed-0", second = scratch_ / "seed-1";
  ASSERT_TRUE(eventually([&] { return reached_step(first) > 5 && reached_step(second) > 5; }));
  for (const std::string task : {"_0", "_1"}) {
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_ + task});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_ + task) == 1; }));
    EXPECT_EQ(cluster_->restarts(job_ + "_1"), task == "_1" ? 1U : 0U);
  }
  for (const fs::path& run_dir : {first, second}) {
    ASSERT_TRUE(eventually(
        [&] { return run::read_lines(run::Layout(run_dir).attempts()).back().value("restarts", 0) == 1; }));
  }
  EXPECT_EQ(cluster_->restarts(job_ + "_0"), 1U);
  cluster_->command({"scancel", job_});
  ASSERT_TRUE(eventually([&] { return processes_with(scratch_.path()).empty(); }));
}

// ---- helpers that come and go ----

// One base node, and two preemptible jobs that help it: the more there are, the fewer leaves each has.
TEST_F(Slurm, FillersComeAndArePreemptedAndComeBack_SameBits) {
  begin({"--nodes=1", "--nodelist=n1"});
  const fs::path filler = scratch_ / "filler.sh";
  std::ofstream(filler)
      << "#!/bin/bash\n#SBATCH --partition=low-now --nodes=1 --exclusive --requeue --open-mode=append\n"
      << "#SBATCH --signal=B:USR1@30 --output=" << (scratch_ / "out-%j").string() << "\nexec " << rekindle()
      << " join " << dir().string() << "\n";
  const std::string first = cluster_->submit({"--nodelist=n2"}, filler);
  const std::string second = cluster_->submit({"--nodelist=n3"}, filler);
  const auto trainers = [&] {
    const auto lines = run::read_lines(run::Layout(dir()).metrics());
    return lines.empty() ? 0 : lines.back().value("trainers", 0);
  };
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  cluster_->take("n[2-3]");
  ASSERT_TRUE(eventually([&] { return trainers() == 1; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(first), 1U);
  // Its time is over: it asks for its own return.
  cluster_->command({"scancel", "--signal=USR1", "--batch", second});
  ASSERT_TRUE(eventually([&] { return trainers() == 2; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(second), 2U);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  stop_and_compare();
  EXPECT_TRUE(eventually([&] { return cluster_->state(first) == "COMPLETED"; }));
}

}  // namespace
}  // namespace rekindle::process_test
