#include "view/history.hpp"

#include <algorithm>
#include <span>

#include "base/input_file.hpp"
#include "view/curve_json.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;

template <class Visit>
void each_line_of(std::string_view text, const Visit& visit) {
  std::size_t done = 0;
  for (std::size_t end; (end = text.find('\n', done)) != std::string_view::npos; done = end + 1)
    visit(done, text.substr(done, end - done));
}

StepRange common(const StepRange& a, const StepRange& b) {
  return {.from = std::max(a.from, b.from), .to = std::min(a.to, b.to)};
}

bool is_empty(const StepRange& range) { return range.from > range.to; }

bool is_within(const StepRange& inner, const StepRange& outer) {
  return outer.from <= inner.from && inner.to <= outer.to;
}

std::uint64_t bytes_of(const std::vector<MetricsIndex::Part>& parts) {
  std::uint64_t bytes = 0;
  for (const MetricsIndex::Part& part : parts) bytes += part.end - part.begin;
  return bytes;
}

}  // namespace

Result<bool> History::read_new(std::uint64_t most_bytes) {
  REKINDLE_TRY(const LineTail::Slice slice, tail_.read_slice(most_bytes));
  if (slice.anew) begin_anew();
  each_line_of(slice.text, [&](std::size_t at, std::string_view line) { on_line(slice.offset + at, line); });
  if (!slice.more) news_from_ = std::min(news_from_, slice.offset + slice.text.size());
  return slice.more;
}

void History::begin_anew() {
  if (news_from_ != UINT64_MAX) {
    MetricsIndex::Kept kept;  // if nothing can be read now, all lines are news
    if (const auto file = open_input(path_)) kept = index_.kept_in(*file).value_or(kept);
    news_from_ = kept.bytes;
    news_.rewound_to = std::min(news_.rewound_to.value_or(UINT64_MAX), kept.step);
    for (auto& [name, points] : points_)
      std::erase_if(points, [&](const Point& point) { return point.step > kept.step; });
  }
  index_ = {};
  metrics_.clear();
  last_step_ = 0;
}

void History::on_line(std::uint64_t offset, std::string_view text) {
  const MetricsLine* line = reader_.read(text);
  index_.add(offset, text, line ? StepRange{line->step, line->step} : MetricsIndex::kNoStep);
  if (!line) return;
  last_step_ = std::max(last_step_, line->step);
  auto at = metrics_.begin();
  for (const auto& [name, value] : line->numbers) {  // both by name
    while (at != metrics_.end() && at->name < name) ++at;
    if (at == metrics_.end() || at->name != name) {
      if (metrics_.size() == kMostNames || name.size() > kMostNameBytes) continue;
      at = metrics_.insert(at, Metric{.name = std::string(name)});
    }
    at->series.add(line->step, value);
    if (offset >= news_from_) add_news(name, {line->step, value});
  }
}

void History::add_news(std::string_view name, const Point& point) {
  if (on_news_) on_news_(name, point);
  auto found = points_.find(name);
  if (found == points_.end()) found = points_.emplace(name, std::vector<Point>()).first;
  std::vector<Point>& points = found->second;
  points.push_back(point);
  if (points.size() < 2 * kMostNews) return;
  points.erase(points.begin(), points.end() - static_cast<std::ptrdiff_t>(kMostNews));
  news_.incomplete = true;
}

News History::take_news() {
  News taken = std::exchange(news_, {});
  for (auto& [name, points] : std::exchange(points_, {})) {
    if (points.size() > kMostNews) {
      points.erase(points.begin(), points.end() - static_cast<std::ptrdiff_t>(kMostNews));
      taken.incomplete = true;
    }
    if (!points.empty()) taken.points[name] = points_json(points);
  }
  return taken;
}

std::vector<std::string> History::names() const {
  std::vector<std::string> names;
  names.reserve(metrics_.size());
  for (const Metric& metric : metrics_) names.push_back(metric.name);
  return names;
}

History::Curve History::plan(const Metric& metric, const CurveQuery& query) const {
  Curve curve{.metric = &metric, .series = Series(query.points), .ranges = {}};
  std::vector<Bucket> inside;
  bool exact = true;
  for (const Bucket& bucket : metric.series.buckets()) {
    const bool single = bucket.count == 1;
    const StepRange steps = single ? StepRange{bucket.last, bucket.last} : metric.series.steps_of(bucket);
    const StepRange wanted = common(steps, query.range);
    if (is_empty(wanted)) continue;
    exact = exact && single;
    if (is_within(steps, query.range))
      inside.push_back(bucket);
    else
      curve.ranges.push_back(wanted);
  }
  const bool narrow_enough = inside.size() + curve.ranges.size() > query.points / 2;
  if (!exact && !narrow_enough && bytes_of(index_.parts_with({query.range})) <= kMostReadAgain) {
    curve.ranges = {query.range};
    return curve;
  }
  for (const Bucket& bucket : inside) curve.series.add(bucket);
  return curve;
}

Status History::read_again(std::vector<Curve>& curves) const {
  std::vector<StepRange> ranges;
  for (const Curve& curve : curves) ranges.insert(ranges.end(), curve.ranges.begin(), curve.ranges.end());
  if (ranges.empty()) return {};
  REKINDLE_TRY(const InputFile file, open_input(path_));
  MetricsLineReader reader;
  const auto on_line = [&](std::size_t, std::string_view text) {
    const MetricsLine* line = reader.read(text);
    if (!line) return;
    auto curve = curves.begin();
    for (const auto& [name, value] : line->numbers) {  // both by name
      while (curve != curves.end() && curve->metric->name < name) ++curve;
      if (curve == curves.end()) return;
      if (curve->metric->name == name &&
          std::ranges::any_of(curve->ranges, [&](const StepRange& range) { return range.has(line->step); }))
        curve->series.add(line->step, value);
    }
  };
  std::uint64_t left = kMostReadAgain;
  std::string text;
  for (const MetricsIndex::Part& part : index_.parts_with(ranges)) {
    for (std::uint64_t at = part.begin; at < part.end;) {
      text.resize(std::min(kPiece, part.end - at));
      if (text.size() > left) return {};  // only in a file whose steps are in no order
      left -= text.size();
      REKINDLE_CHECK(file.read(at, std::as_writable_bytes(std::span(text))));
      each_line_of(text, on_line);
      const std::size_t lines = text.rfind('\n') + 1;
      at += lines > 0 ? lines : text.size();
    }
  }
  return {};
}

Result<nlohmann::json> History::curves(const CurveQuery& query) const {
  CurveQuery limited = query;
  limited.points = std::clamp<std::size_t>(query.points, 1, kMostBuckets);
  limited.range.to = std::min(query.range.to, last_step_);
  std::vector<Curve> curves;
  for (const Metric& metric : metrics_)
    if (std::ranges::find(query.names, metric.name) != query.names.end())
      curves.push_back(plan(metric, limited));
  REKINDLE_CHECK(read_again(curves));
  nlohmann::json answer = {{"from", limited.range.from},
                           {"to", limited.range.to},
                           {"last", last_step_},
                           {"exact", true},
                           {"curves", nlohmann::json::object()}};
  for (const Curve& curve : curves) {
    if (!curve.series.exact()) answer["exact"] = false;
    answer["curves"][curve.metric->name] = curve_json(curve.series);
  }
  return answer;
}

}  // namespace rekindle::view
