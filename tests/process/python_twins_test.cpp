// Models of the program, written in Python (tests/python/twins.py): from the same weights and samples, the
// same bits.
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonTwins : public Python {
 protected:
  // After 20 steps, of the program's own trainer and of two in Python.
  void expect_equal(const std::string& model, const fs::path& data, const Arguments& program_options) const {
    const Arguments common = {"--micro-batches", "8", "--batch-size", "32", "--lr", "0.01"};
    const Arguments own = Arguments{"local", "--workers",   "1",       "--model",    model, "--data",
                                    data,    "--optimizer", "sgd",     "--momentum", "0.9", "--weight-decay",
                                    "0",     "--schedule",  "constant"} +
                          common + program_options;
    const fs::path first = scratch_ / "first", weights = scratch_ / "weights.safetensors";
    succeed(own + Arguments{"--run-dir", first, "--steps", "1", "--seed", "2"});
    succeed({"export", first, weights});
    const Arguments both = {"--steps", "20", "--init", weights};
    succeed(own + both + Arguments{"--run-dir", scratch_ / "own"});
    succeed(Arguments{"local", "--workers", "2", "--run-dir", scratch_ / "twin"} + common + both +
            Arguments{fs::path(REKINDLE_SOURCE) / "tests/python/twins.py", model, data});
    EXPECT_EQ(digest_of(scratch_ / "twin"), digest_of(scratch_ / "own"));
  }

  static void succeed(const Arguments& arguments) {
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
};

TEST_F(PythonTwins, MnistCnn_SameBits) {
  const fs::path data = scratch_ / "data";
  succeed({"make-data", "mnist", data, "--samples", "256"});
  expect_equal("mnist-cnn", data, {});
}

TEST_F(PythonTwins, Resnet18_SameBits) {
  const fs::path data = scratch_ / "data";
  const std::string made = script("images.py", R"(
import pathlib, sys, numpy
from PIL import Image
random = numpy.random.default_rng(1)
for split, count in (("train", 24), ("val", 1)):
    for label in range(10):
        folder = pathlib.Path(sys.argv[1], split, str(label))
        folder.mkdir(parents=True)
        for image in range(count):
            Image.fromarray(random.integers(0, 256, (37, 37, 3), numpy.uint8)).save(folder / f"{image:02}.png")
)");
  const Outcome outcome = python({made, data});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_equal("resnet18", data, {"--dataset", "image-folder", "--image-size", "32", "--augment", "off"});
}

}  // namespace
}  // namespace rekindle::process_test
