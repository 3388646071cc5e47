// bench_exchange: the cost of --exchange-integrity. Two ranks, each a process, call reduce() over tcp, in
// turns with and without integrity. docs/performance.md has results.
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/frame_mac.hpp"

namespace rekindle::bench {
namespace {

using exchange::Endpoint;
using exchange::Hub;
using exchange::Plan;

struct Options {
  std::size_t floats = 132'900'000;  // VGG11's
  int rounds = 8, calls = 3;
  double gbit = 0;
  std::vector<std::string> network_namespaces;  // of the ranks
  std::vector<std::string> addresses{"127.0.0.1", "127.0.0.1"};
  bool mac = false;
};

// Memory of both ranks.
struct Board {
  std::atomic<int> listening;
  std::uint16_t ports[2];
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bench_exchange: %s\n", result.error().line().c_str());
  std::_Exit(70);
}
void need(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "bench_exchange: %s\n", status.error().line().c_str());
  std::_Exit(70);
}

// Limits the rate of every tcp connection of this process by tcp's own pacing, without traffic control.
void limit_rate(double gbit) {
  const auto bytes_per_second = static_cast<std::uint64_t>(gbit * 1e9 / 8);
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.ss_family != AF_INET)
      continue;
    if (::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second) != 0)
      std::perror("SO_MAX_PACING_RATE");
  }
}

void enter(const std::string& network_namespace) {
  const int fd = ::open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) {
    std::perror(network_namespace.c_str());
    std::_Exit(70);
  }
}

struct Cost {
  std::vector<double> seconds, processor;  // per call, for each round
};

// One generation: the mean of all calls except the first.
void run_round(Hub& hub, Plan plan, const Options& options, Cost& cost) {
  const auto exchange = hub.make(plan);
  need(exchange->connect());
  if (options.gbit > 0) limit_rate(options.gbit);
  double began = 0, used = 0;
  for (int call = 0; call <= options.calls; ++call) {
    if (call == 1) {
      need(exchange->gather({}));
      began = now();
      used = processor_seconds();
    }
    need(exchange->reduce({}));
    need(exchange->release());
  }
  cost.seconds.push_back((now() - began) / options.calls);
  cost.processor.push_back((processor_seconds() - used) / options.calls);
  need(exchange->gather({}));
}

int run_rank(int rank, Board& board, const Options& options) {
  if (!options.network_namespaces.empty()) enter(options.network_namespaces[static_cast<std::size_t>(rank)]);
  const auto hub = need(Hub::open(options.floats, options.addresses[static_cast<std::size_t>(rank)]));
  std::ranges::fill(need(hub->slot(0)), 1e-30F);
  board.ports[rank] = hub->endpoint().port;
  ++board.listening;
  while (board.listening < 2) ::usleep(1000);
  Cost costs[2];  // off, on
  for (int round = 0; round < options.rounds; ++round) {
    for (const bool first : {true, false}) {
      Plan plan;
      plan.term = 1;
      plan.generation = static_cast<std::uint64_t>(round) * 2 + (first ? 1 : 2);
      plan.rank = rank;
      plan.leaves = 2;
      plan.secret = "of a measurement";
      plan.backend = exchange::Backend::kTcp;
      plan.integrity = (round % 2 == 0) == first;  // off and on come first equally often
      for (std::size_t i = 0; i < 2; ++i) {
        Endpoint endpoint = hub->endpoint();
        endpoint.address = options.addresses[i];
        endpoint.port = board.ports[i];
        plan.members.push_back(endpoint);
      }
      run_round(*hub, plan, options, costs[plan.integrity ? 1 : 0]);
    }
    if (rank == 0)
      std::printf("round %d: off %.3f s (processor %.3f s)  on %.3f s (%.3f s)  on - off %+.3f s\n",
                  round + 1, costs[0].seconds.back(), costs[0].processor.back(), costs[1].seconds.back(),
                  costs[1].processor.back(), costs[1].seconds.back() - costs[0].seconds.back());
    std::fflush(stdout);
  }
  if (rank != 0) return 0;
  std::vector<double> differences, ratios;
  for (std::size_t i = 0; i < costs[0].seconds.size(); ++i) {
    differences.push_back(costs[1].seconds[i] - costs[0].seconds[i]);
    ratios.push_back(costs[1].seconds[i] / costs[0].seconds[i]);
  }
  std::printf("median: off %.3f s (processor %.3f s)  on %.3f s (%.3f s)  of the pairs: %+.3f s, x %.3f\n",
              median(costs[0].seconds), median(costs[0].processor), median(costs[1].seconds),
              median(costs[1].processor), median(differences), median(ratios));
  return 0;
}

// Measures frames like those of reduce().
void measure_mac() {
  std::vector<std::byte> frame(std::size_t{256} << 10, std::byte{7});
  exchange::FrameMac mac({});
  for (int round = 0; round < 5; ++round) {
    constexpr int kFrames = 4000;
    const double began = now();
    for (int i = 0; i < kFrames; ++i) {
      mac.add(frame);
      (void)mac.finish();
    }
    std::printf("authentication tags of 256 KiB frames: %.2f GB/s\n",
                kFrames * static_cast<double>(frame.size()) / (now() - began) / 1e9);
  }
}

int main(int argc, char** argv) {
  CLI::App cli("reduce() over tcp, with and without --exchange-integrity", "bench_exchange");
  Options options;
  cli.add_option("--floats", options.floats, "of the gradient")->capture_default_str();
  cli.add_option("--rounds", options.rounds, "pairs of one generation without and one with integrity")
      ->capture_default_str();
  cli.add_option("--calls", options.calls, "measured calls of reduce() in each generation")
      ->capture_default_str();
  cli.add_option("--gbit", options.gbit, "at most so many Gbit/s in each direction; 0: no limit");
  cli.add_option("--netns", options.network_namespaces, "the two ranks' network namespaces (files)")
      ->expected(2);
  cli.add_option("--address", options.addresses, "the two ranks' addresses")->expected(2);
  cli.add_flag("--mac", options.mac, "measure the authentication tags alone");
  CLI11_PARSE(cli, argc, argv);
  if (options.mac) {
    measure_mac();
    return 0;
  }
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& board = *new (memory) Board{};
  const pid_t other = ::fork();
  if (other == 0) std::_Exit(run_rank(1, board, options));
  const int code = run_rank(0, board, options);
  int status = 0;
  ::waitpid(other, &status, 0);
  return code;
}

}  // namespace
}  // namespace rekindle::bench

int main(int argc, char** argv) { return rekindle::bench::main(argc, argv); }
