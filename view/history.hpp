// The numbers of a run over its steps, from metrics.jsonl.
//
// What is kept takes the same memory for every number of steps: of each name at most kMostBuckets buckets of
// steps, and where in the file which steps are. For a range of steps whose buckets are too wide, the file is
// read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "view/curve.hpp"
#include "view/line_tail.hpp"
#include "view/metrics_index.hpp"
#include "view/metrics_line.hpp"
#include "view/series.hpp"

namespace rekindle::view {

struct CurveQuery {
  std::vector<std::string> names;  // the answer leaves out names that are not known
  StepRange range;
  std::size_t points = 1000;  // of each curve, at most; 1 to kMostBuckets
};

// What has happened since the first time that all of the file had been read, or since the last call.
struct News {
  // The values after this step are gone: the run went back, and the file was written anew. `points` has those
  // that followed. It may be some steps before the step that the run went back to: then the values between
  // are in `points` again.
  std::optional<std::uint64_t> rewound_to;
  // By name: [[step, value], ...], in the order of the file; the newest kMostNews of each name.
  nlohmann::json points = nlohmann::json::object();
  bool incomplete = false;  // `points` lacks older ones
};

class History {
 public:
  static constexpr std::size_t kMostNames = 64;       // the first ones in the file
  static constexpr std::size_t kMostNameBytes = 128;  // of a name; longer ones are left out
  static constexpr std::size_t kMostBuckets = 4096;
  static constexpr std::size_t kMostNews = 1000;
  // For one query at most so much of the file is read. If the steps need more, the kept buckets are the
  // answer.
  static constexpr std::uint64_t kMostReadAgain = std::uint64_t{256} << 20;

  explicit History(const run::Layout& layout) : path_(layout.metrics()), tail_(path_) {}

  // Reads about `most_bytes` of new lines (350 MB take a second); whether there are more. If the file was
  // written anew without its last steps, reading begins again at its first line. After an error nothing is
  // lost: the next call has it.
  Result<bool> read_new(std::uint64_t most_bytes);

  // All names, in lexical order.
  std::vector<std::string> names() const;
  std::uint64_t last_step() const { return last_step_; }

  // The answer of api/curves (docs/board.md). An error if the file cannot be read again.
  Result<nlohmann::json> curves(const CurveQuery& query) const;
  News take_news();
  // Gets each value that is news, also those that take_news() leaves out.
  using OnNews = std::function<void(std::string_view name, const Point& point)>;
  void on_news(OnNews visit) { on_news_ = std::move(visit); }

 private:
  struct Metric {
    std::string name;
    Series series{kMostBuckets};
  };
  // One curve of an answer: `series` lacks the values of the steps in `ranges`, which are in the file.
  struct Curve {
    const Metric* metric = nullptr;
    Series series;
    std::vector<StepRange> ranges;
  };
  void begin_anew();
  void on_line(std::uint64_t offset, std::string_view line);
  void add_news(std::string_view name, const Point& point);
  Curve plan(const Metric& metric, const CurveQuery& query) const;
  Status read_again(std::vector<Curve>& curves) const;

  const FilePath path_;
  LineTail tail_;
  MetricsLineReader reader_;
  MetricsIndex index_;
  std::vector<Metric> metrics_;  // by name
  std::uint64_t last_step_ = 0;
  std::uint64_t news_from_ = UINT64_MAX;  // the lines from this offset on are news
  News news_;                             // without points
  OnNews on_news_;
  std::map<std::string, std::vector<Point>, std::less<>> points_;  // of the news; at most 2 * kMostNews each
};

}  // namespace rekindle::view
