// bench_images: opens an image folder, reads training images as a trainer's loader thread does, and prints
// one line of JSON with the times and the peak memory. bench/images.py runs it beside torchvision.
#include <ctime>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "data/dataset.hpp"

namespace rekindle::bench {
namespace {

struct Options {
  std::string folder;
  int image_size = 224, warm_up = 0, images = 0;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// VmHWM of proc(5). Not ru_maxrss, which begins with the memory of the program that started this one.
double peak_resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  return 0;
}

Status measure(const Options& options) {
  const double began = now();
  REKINDLE_TRY(const auto dataset, data::open_dataset("image-folder", options.folder, {}));
  const double opened = now();
  const data::TransformConfig config{options.image_size, data::Augment::kResizedCrop};
  data::Batch batch;
  data::make_room(batch, dataset->info(), config, 1);
  const auto read = [&](int i) {
    const std::size_t index = static_cast<std::size_t>(i) % dataset->info().train_count;
    return dataset->read(data::Split::kTrain, index, config, static_cast<std::uint64_t>(i), batch, 0);
  };
  for (int i = 0; i < options.warm_up; ++i) REKINDLE_CHECK(read(i));
  const double first = now(), used = processor_seconds();
  for (int i = 0; i < options.images; ++i) REKINDLE_CHECK(read(i));
  std::printf(R"({"train_count": %zu, "open_s": %.4f, "read_s": %.6f, "processor_s": %.6f, "peak_mib": %.1f})"
              "\n",
              dataset->info().train_count, opened - began, now() - first, processor_seconds() - used,
              peak_resident_mib());
  return {};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Opens an image folder and reads training images, by one thread"};
  app.add_option("folder", options.folder, "the image folder")->required();
  app.add_option("--image-size", options.image_size, "pixels of the output's side")->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "images before the timed ones")->capture_default_str();
  app.add_option("--images", options.images, "timed images")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Status done = measure(options);
  if (!done) std::fprintf(stderr, "bench_images: %s\n", done.error().line().c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace rekindle::bench

int main(int argc, char** argv) { return rekindle::bench::run(argc, argv); }
