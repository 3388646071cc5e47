// A process that writes TensorBoard's files, for read_tensorboard.py.
//
// usage: write_tensorboard RUN_DIR NAME SECONDS. Each line of stdin is an order: "begin", "metrics JSON",
// "event JSON", or "write", which is answered with "written".
#include <cstdlib>
#include <iostream>
#include <string>

#include "board/tensorboard.hpp"

namespace {

using namespace rekindle;

Status obey(board::TensorBoardFiles& files, const std::string& order, const std::string& rest) {
  if (order == "begin") {
    REKINDLE_CHECK(files.begin_events());
    return files.begin_metrics();
  }
  if (order == "metrics") {
    view::MetricsLineReader reader;
    const view::MetricsLine* line = reader.read(rest);
    if (line != nullptr) files.on_metrics(*line);
    return {};
  }
  if (order == "event") {
    files.on_event(nlohmann::json::parse(rest));
    return {};
  }
  REKINDLE_CHECK(files.caught_up(std::chrono::milliseconds(0)));
  REKINDLE_CHECK(files.finish());
  std::cout << "written" << std::endl;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  board::TensorBoardFiles files(run::Layout(argv[1]),
                                {.name = argv[2], .seconds = std::strtoull(argv[3], nullptr, 10)});
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t space = line.find(' ');
    const Status done =
        obey(files, line.substr(0, space), space == std::string::npos ? "" : line.substr(space + 1));
    if (!done) {
      std::cerr << done.error().line() << "\n";
      return 1;
    }
  }
  return 0;
}
