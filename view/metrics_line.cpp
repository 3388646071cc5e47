#include "view/metrics_line.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/json_reader.hpp"

namespace rekindle::view {
namespace {

constexpr const char *kStep = "step", *kAt = "at";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes one part after the other from the front of a text. After something unexpected nothing is left.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ended() const { return at_ == end_; }
  bool next_is(char c) const { return at_ != end_ && *at_ == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!std::string_view(at_, end_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // A string of ASCII characters without escapes.
  std::optional<std::string_view> take_text() {
    if (!take('"')) return std::nullopt;
    const char* begin = at_;
    for (; at_ != end_ && *at_ != '"'; ++at_)
      if (*at_ < 0x20 || *at_ == '\\') return std::nullopt;  // also the bytes from 0x80, which are negative
    const std::string_view text(begin, at_);
    return take('"') ? std::optional(text) : std::nullopt;
  }
  // The characters of a number. Source: RFC 8259, section 6.
  std::optional<std::string_view> take_number() {
    const char* begin = at_;
    take('-');
    if (!take('0') && !take_digits()) return std::nullopt;
    if (take('.') && !take_digits()) return std::nullopt;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!take_digits()) return std::nullopt;
    }
    return std::string_view(begin, at_);
  }

 private:
  bool take_digits() {
    const char* begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != begin;
  }

  const char *at_, *end_;
};

static_assert(static_cast<char>(0x80) < 0x20, "char has a sign");

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

const MetricsLine* MetricsLineReader::read(std::string_view line) {
  return read_plain(line) || read_any(line) ? &line_ : nullptr;
}

bool MetricsLineReader::read_plain(std::string_view line) {
  line_.numbers.clear();
  line_.at = {};
  Scanner in(line);
  if (!in.take('{')) return false;
  bool has_step = false;
  std::string_view before;
  do {
    const auto key = in.take_text();
    // In ascending order no key is there twice.
    if (!key || *key <= before || !in.take(':')) return false;
    before = *key;
    if (in.next_is('"')) {
      const auto text = in.take_text();
      if (!text) return false;
      if (*key == kAt) line_.at = *text;
      continue;
    }
    if (in.take("null") || in.take("true") || in.take("false")) continue;
    const auto text = in.take_number();
    if (!text) return false;
    if (*key == kStep) {
      const auto step = number_in<std::uint64_t>(*text);
      if (!step || *step > std::uint64_t{INT64_MAX}) return false;
      line_.step = *step;
      has_step = true;
    } else if (const auto number = number_in<double>(*text)) {
      line_.numbers.emplace_back(*key, *number);
    } else {
      return false;  // too large or too small
    }
  } while (in.take(','));
  return in.take('}') && in.ended() && has_step;
}

bool MetricsLineReader::read_any(std::string_view line) {
  constexpr JsonField kFields[] = {{kStep, JsonType::kWhole, Presence::kRequired}};
  const auto json = parse_object(line, kFields, "");
  if (!json) return false;
  line_.step = json->at(kStep).get<std::uint64_t>();
  line_.numbers.clear();
  names_.clear();
  for (const auto& [key, value] : json->items()) {
    if (!value.is_number() || key == kStep || !std::isfinite(value.get<double>())) continue;
    names_.push_back(key);
    line_.numbers.emplace_back("", value.get<double>());
  }
  const auto at = json->find(kAt);
  at_ = at != json->end() && at->is_string() ? at->get<std::string>() : "";
  line_.at = at_;
  for (std::size_t i = 0; i < names_.size(); ++i) line_.numbers[i].first = names_[i];
  return true;
}

}  // namespace rekindle::view
