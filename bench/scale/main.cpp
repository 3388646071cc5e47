// bench_scale: the resources of a coordinator with many nodes. The coordinator, the workers (in a few other
// processes) and their TLS connections are real; only the trainers are simulated. docs/performance.md has
// results.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/log.hpp"
#include "node.hpp"
#include "stage.hpp"

namespace rekindle::bench {
namespace {

struct Sizes {
  int workers = 512, trainers = 8, processes = 8;
  double seconds = 20;
};

void print(const char* what, double value, const char* unit, const char* goal = "") {
  std::printf("%-76s %8.2f %-14s %s\n", what, value, unit, goal);
  std::fflush(stdout);
}

double seconds(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e9;
}

void measure(Stage& stage, const Sizes& sizes) {
  const int last = 1, many = sizes.workers - last;
  std::printf("%d workers of %d trainers\n", sizes.workers, sizes.trainers);
  stage.start_coordinator();
  const Usage empty = stage.coordinator();
  const std::int64_t began = now_ns();
  for (int i = 0; i < sizes.processes; ++i) {
    const int first = many * i / sizes.processes;
    stage.start_nodes(first, many * (i + 1) / sizes.processes - first);
  }
  const std::int64_t all_ready = stage.wait_for("ready", began);
  print("all workers but one, at once: from the start of their processes to welcome",
        seconds(began, all_ready), "s");
  stage.wait_for_trainers(static_cast<std::size_t>(many) * static_cast<std::size_t>(sizes.trainers));
  print("  processor time of the coordinator until then", stage.coordinator().cpu_seconds - empty.cpu_seconds,
        "s");

  const std::int64_t came = now_ns();
  stage.start_nodes(many, last);
  const std::int64_t started = stage.wait_for("started", came);
  const std::int64_t welcome = stage.wait_for("ready", came - 1'000'000'000'000);
  print("the last worker's trainers are ready, to every trainer's Start", seconds(welcome, started), "s",
        "< 2 s");
  print("  the same from the start of its process: connecting, TLS, registration", seconds(came, started),
        "s");

  stage.pass(5);
  const Usage before = stage.coordinator();
  const std::int64_t from = now_ns();
  stage.pass(sizes.seconds);
  const Usage after = stage.coordinator();
  print("heartbeats of all workers and trainers: share of a core",
        100 * (after.cpu_seconds - before.cpu_seconds) / seconds(from, now_ns()), "%", "< 10 %");
  print("memory, steady", after.rss_mib, "MiB", "< 1024 MiB");
  print("  threads", after.threads, "");

  std::int64_t killed = stage.kill_last_nodes();
  print("SIGKILL of a worker to the abort at every other trainer",
        seconds(killed, stage.wait_for("aborted", killed)), "s", "< 1 s");
  print("  to every other trainer's next Start", seconds(killed, stage.wait_for("started", killed)), "s");
  stage.pass(3);
  killed = stage.kill_last_nodes();
  print("SIGKILL of a node process with many workers to the abort at every other",
        seconds(killed, stage.wait_for("aborted", killed)), "s", "< 1 s");
  print("  to every other trainer's next Start", seconds(killed, stage.wait_for("started", killed)), "s");
  stage.pass(3);
  print("memory, highest", stage.coordinator().peak_rss_mib, "MiB", "< 1024 MiB");

  killed = stage.kill_coordinator();
  stage.start_coordinator(true);
  print("SIGKILL of the coordinator until the next one has taken the generation over",
        seconds(killed, stage.wait_for_line("is taken over")), "s");
  print("  its processor time until then", stage.coordinator().cpu_seconds, "s");
  print("  its memory, highest", stage.coordinator().peak_rss_mib, "MiB", "< 1024 MiB");
}

int main(int argc, char** argv) {
  CLI::App cli("A coordinator of many nodes: formation, heartbeats, losses, memory", "bench_scale");
  Sizes sizes;
  cli.add_option("--workers", sizes.workers)->capture_default_str();
  cli.add_option("--trainers", sizes.trainers, "of each worker")->capture_default_str();
  cli.add_option("--processes", sizes.processes, "that contain the workers")->capture_default_str();
  cli.add_option("--seconds", sizes.seconds, "of heartbeats that are measured")->capture_default_str();
  std::string run_dir;
  NodeOptions nodes{run::Layout("")};
  CLI::App* part = cli.add_subcommand("nodes", "a part of this program");
  part->add_option("--run-dir", run_dir)->required();
  part->add_option("--first", nodes.first);
  part->add_option("--nodes", nodes.nodes);
  part->add_option("--trainers", nodes.trainers);
  part->add_option("--term", nodes.term);
  part->add_option("--build", nodes.build);
  CLI11_PARSE(cli, argc, argv);
  allow_many_files();
  if (part->parsed()) {
    ignore_group_signals();
    nodes.layout = run::Layout(run_dir);
    run_nodes(nodes, Fd(kInheritedFd));
  }
  std::string root = std::filesystem::temp_directory_path() / "rekindle-scale-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) {
    std::fprintf(stderr, "bench_scale: no temporary directory\n");
    return 70;
  }
  {
    Stage stage(run::Layout(root), sizes.workers, sizes.trainers);
    measure(stage, sizes);
  }
  std::filesystem::remove_all(root);
  return 0;
}

}  // namespace
}  // namespace rekindle::bench

int main(int argc, char** argv) { return rekindle::bench::main(argc, argv); }
