// A job whose workers run in containers that srun makes (pyxis); those of apptainer: batch_host_test.cpp.
#include "../needs.hpp"
#include "cluster.hpp"
#include "container.hpp"

namespace rekindle::process_test {
namespace {

class SlurmContainers : public SlurmRun {};

TEST_F(SlurmContainers, OfSrun_RequeuedWithTheSameBits) {
  if (const std::string why = Image::why_none(); !why.empty()) REKINDLE_SKIP(Image::needs(), why);
  const Image image(REKINDLE_SOURCE, scratch_ / "image");
  begin({"--nodes=2"}, {"--container", image.path(), "--container-runtime", "srun"});
  EXPECT_EQ(image.starts("rekindle-control worker"), 2);
  cluster_->command({"scancel", "--batch", "--signal=USR1", job_});
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").back()["requeued"], true);
  EXPECT_EQ(image.starts("rekindle-control worker"), 4);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
