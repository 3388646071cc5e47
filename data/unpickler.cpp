#include "data/pickle.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace rekindle::data {
namespace {

// CIFAR-100's training file has 150,000 values.
constexpr std::size_t kMostValues = 1'000'000;

constexpr const char* kHint =
    "get the file again; only CIFAR's own pickles are read, and nothing in them is executed";

}  // namespace

// The stack machine of pickle, for the opcodes that cPickle of Python 2 writes at protocol 2, and BINUNICODE:
// https://github.com/python/cpython/blob/main/Lib/pickletools.py
class Unpickler {
 public:
  Unpickler(std::string_view bytes, Pickle& pickle) : bytes_(bytes), pickle_(pickle) {}

  Status run() {
    while (!stopped_) {
      REKINDLE_TRY(const std::string_view opcode, take(1));
      REKINDLE_CHECK(step(opcode[0]));
      const std::size_t most = std::max({pickle_.values_.size(), memo_.size(), stack_.size(), marks_.size()});
      if (most > kMostValues) return bad("has too many values");
    }
    return {};
  }

 private:
  using Handle = Pickle::Handle;
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  tl::unexpected<Error> bad(const std::string& what) const {
    return fail(ExitCode::kConfig, str(pickle_.source_, " ", what), kHint);
  }

  Result<std::string_view> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return bad("ends in the middle of its pickle");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  Result<std::uint64_t> number(std::size_t width) {  // little-endian
    REKINDLE_TRY(const std::string_view text, take(width));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    return value;
  }
  Result<std::string_view> line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return bad("ends in the middle of its pickle");
    REKINDLE_TRY(const std::string_view text, take(end - at_));
    ++at_;
    return text;
  }

  Status push(Value value) {
    stack_.push_back(static_cast<Handle>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return {};
  }
  Status push_text(std::size_t width) {
    REKINDLE_TRY(const std::uint64_t length, number(width));
    REKINDLE_TRY(const std::string_view text, take(length));
    return push({.kind = Kind::kText, .text = text});
  }
  Status push_number(std::size_t width) {
    REKINDLE_TRY(const std::uint64_t value, number(width));
    const auto whole =
        width == 4 ? std::int64_t{static_cast<std::int32_t>(value)} : static_cast<std::int64_t>(value);
    return push({.kind = Kind::kNumber, .number = whole});
  }

  // The values above the newest mark, or the `count` newest ones.
  Result<std::vector<Handle>> pop(std::optional<std::size_t> count = {}) {
    if (!count && marks_.empty()) return bad("has a pickle without a mark where one is needed");
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (count && *count > stack_.size() - floor) return bad("has a pickle whose stack is empty too early");
    const std::size_t begin = count ? stack_.size() - *count : floor;
    if (!count) marks_.pop_back();
    std::vector<Handle> items(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return items;
  }
  Status tuple(std::optional<std::size_t> count = {}) {
    REKINDLE_TRY(std::vector<Handle> items, pop(count));
    return push({.kind = Kind::kTuple, .items = std::move(items)});
  }
  Status extend(Kind kind, std::optional<std::size_t> count = {}) {
    REKINDLE_TRY(const std::vector<Handle> items, pop(count));
    if (stack_.empty() || top().kind != kind || (kind == Kind::kDict && items.size() % 2 != 0))
      return bad("has a pickle that adds items to something else than a list or a dictionary");
    top().items.insert(top().items.end(), items.begin(), items.end());
    return {};
  }
  Value& top() { return pickle_.values_[stack_.back()]; }

  Status remember(std::size_t width) {
    REKINDLE_TRY(const std::uint64_t place, number(width));
    if (stack_.empty()) return bad("has a pickle whose stack is empty too early");
    memo_[place] = stack_.back();
    return {};
  }
  Status recall(std::size_t width) {
    REKINDLE_TRY(const std::uint64_t place, number(width));
    const auto found = memo_.find(place);
    if (found == memo_.end()) return bad("has a pickle that uses a value before it is there");
    stack_.push_back(found->second);
    return {};
  }

  Status global() {
    REKINDLE_TRY(const std::string_view module, line());
    REKINDLE_TRY(const std::string_view name, line());
    const std::string both = str(module, ".", name);
    for (const char* known : {"numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct",
                              "numpy.ndarray", "numpy.dtype"}) {
      if (both == known) return push({.kind = Kind::kGlobal, .text = name});
    }
    return bad(str("has a pickle that would call ", printable(both)));
  }
  // _reconstruct(...) makes an empty array, and dtype("u1", ...) an element type.
  Status call() {
    REKINDLE_TRY(const std::vector<Handle> items, pop(2));
    const Value &callee = pickle_.values_[items[0]], &arguments = pickle_.values_[items[1]];
    if (callee.kind != Kind::kGlobal || arguments.kind != Kind::kTuple || arguments.items.empty())
      return bad("has a pickle that calls something else than a function of NumPy");
    if (callee.text == "_reconstruct") return push({.kind = Kind::kArray});
    if (callee.text == "dtype")
      return push({.kind = Kind::kDtype, .text = pickle_.values_[arguments.items[0]].text});
    return bad(str("has a pickle that would call numpy.", callee.text));
  }
  // The state of an array: (version, shape, dtype, is column-major, bytes).
  Status build() {
    REKINDLE_TRY(const std::vector<Handle> items, pop(1));
    const Value& state = pickle_.values_[items[0]];
    if (stack_.empty() || state.kind != Kind::kTuple)
      return bad("has a pickle with a wrong state of an object");
    if (top().kind == Kind::kDtype) return {};  // byte order and alignment mean nothing for bytes
    if (top().kind != Kind::kArray || state.items.size() != 5)
      return bad("has a pickle with a wrong state of an object");
    top().items.assign(state.items.begin() + 1, state.items.end());
    return {};
  }

  Status protocol() {
    REKINDLE_TRY(const std::uint64_t version, number(1));
    if (version != 2) return bad(str("is a pickle of protocol ", version, ", but CIFAR's is 2"));
    return {};
  }
  Status stop() {
    stopped_ = true;
    if (stack_.size() != 1 || top().kind != Kind::kDict)
      return bad("is a pickle of something else than a dictionary");
    pickle_.root_ = stack_.back();
    return {};
  }

  Status step(char opcode) {
    switch (opcode) {
      case '\x80':
        return protocol();
      case '.':
        return stop();
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case 'N':
        return push({});
      case '\x88':
        return push({.kind = Kind::kNumber, .number = 1});
      case '\x89':
        return push({.kind = Kind::kNumber, .number = 0});
      case 'K':
        return push_number(1);
      case 'M':
        return push_number(2);
      case 'J':
        return push_number(4);
      case 'U':
        return push_text(1);
      case 'T':
      case 'X':
        return push_text(4);
      case ']':
        return push({.kind = Kind::kList});
      case 'a':
        return extend(Kind::kList, 1);
      case 'e':
        return extend(Kind::kList);
      case '}':
        return push({.kind = Kind::kDict});
      case 's':
        return extend(Kind::kDict, 2);
      case 'u':
        return extend(Kind::kDict);
      case ')':
        return push({.kind = Kind::kTuple});
      case '\x85':
        return tuple(1);
      case '\x86':
        return tuple(2);
      case '\x87':
        return tuple(3);
      case 't':
        return tuple();
      case 'q':
        return remember(1);
      case 'r':
        return remember(4);
      case 'h':
        return recall(1);
      case 'j':
        return recall(4);
      case 'c':
        return global();
      case 'R':
        return call();
      case 'b':
        return build();
      default:
        return bad(str("has the opcode ", printable({&opcode, 1}), " at byte ", at_ - 1,
                       ", which CIFAR's pickles have not"));
    }
  }

  const std::string_view bytes_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  Pickle& pickle_;
  std::vector<Handle> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Handle> memo_;
};

Result<Pickle> Pickle::parse(std::string_view bytes, std::string source) {
  Pickle pickle;
  pickle.source_ = std::move(source);
  REKINDLE_CHECK(Unpickler(bytes, pickle).run());
  return pickle;
}

}  // namespace rekindle::data
