#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/safetensors.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr const char* kNoHeader = "its header is not a JSON object of tensors";
constexpr int kMaxDepth = 3;  // header, tensor, shape

// Reads the header while it is parsed. nlohmann's own tree with a callback would search the complete header
// again after each tensor.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  // The reason why parsing stopped, if the text is JSON.
  const std::string& wrong() const { return wrong_; }
  std::vector<HeaderEntry> take_entries() { return std::move(entries_); }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool number_integer(std::int64_t) override { return other(); }
  bool number_unsigned(std::uint64_t number) override {
    if (is_ignored()) return true;
    if (depth_ != 3 || list_ == nullptr || number > std::uint64_t{INT64_MAX}) return other();
    if (list_->size() == kMaxNumbers) return stop_at_tensor(str("its ", field_, " has too many numbers"));
    list_->push_back(number);
    return true;
  }
  bool string(std::string& text) override {
    if (is_ignored() || (in_metadata_ && depth_ == 2)) return true;
    if (depth_ != 2 || field_ != "dtype") return other();
    dtype_ = text;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 0 || is_ignored()) return deeper();
    if (depth_ != 1) return other();
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    field_.clear();
    return deeper();
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      name_ = text;
      in_metadata_ = text == kMetadata;
      if (!names_.insert(text).second) return stop(str("tensor ", text, " is listed twice"));
    } else if (depth_ == 2) {
      field_ = text;
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    return depth_ != 1 || in_metadata_ || add_entry();
  }
  bool start_array(std::size_t) override {
    if (is_ignored()) return deeper();
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") return other();
    auto& list = field_ == "shape" ? shape_ : offsets_;
    list_ = &list.emplace();
    return deeper();
  }
  bool end_array() override {
    --depth_;
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t kMaxNumbers = 64;  // HDF5 allows 32 dimensions

  // A field that the format does not define may have any value.
  bool is_ignored() const {
    return depth_ >= 2 && !in_metadata_ && field_ != "dtype" && field_ != "shape" && field_ != "data_offsets";
  }
  bool deeper() {
    ++depth_;
    return true;
  }
  bool stop(std::string why) {
    if (wrong_.empty()) wrong_ = std::move(why);
    return false;
  }
  bool stop_at_tensor(const std::string& why) { return stop(str("tensor ", name_, ": ", why)); }

  // Called for a value of the wrong type.
  bool other() {
    if (is_ignored()) return true;
    if (depth_ == 0) return stop(kNoHeader);
    if (in_metadata_) return stop(str("its ", kMetadata, " is not a map of strings"));
    if (depth_ == 1) return stop_at_tensor("it is not described");
    if (field_ == "dtype") return stop_at_tensor("its dtype is missing");
    return stop_at_tensor(str("its ", field_, " is not a list of whole numbers"));
  }

  bool add_entry() {
    auto entry = entry_of();
    if (!entry) return stop_at_tensor(entry.error().line());
    entries_.push_back(std::move(*entry));
    return true;
  }

  Result<HeaderEntry> entry_of() const {
    HeaderEntry entry;
    entry.spec.name = name_;
    if (!dtype_) return fail("its dtype is missing");
    // A bool is stored as here: a byte that is 0 or 1.
    const std::string name = *dtype_ == "BOOL" ? safetensors_name(Dtype::kUint8) : *dtype_;
    const auto* known =
        std::ranges::find_if(kDtypes, [&name](Dtype each) { return name == safetensors_name(each); });
    if (known == kDtypes.end()) return fail(str("its dtype ", *dtype_, " is not supported"));
    entry.spec.dtype = *known;
    if (!shape_) return fail("its shape is missing");
    entry.spec.shape.assign(shape_->begin(), shape_->end());
    REKINDLE_CHECK(check_tensor(entry.spec));
    if (!offsets_) return fail("its data_offsets is missing");
    if (offsets_->size() != 2) return fail("its data_offsets are not two numbers");
    entry.begin = (*offsets_)[0];
    entry.end = (*offsets_)[1];
    if (entry.end < entry.begin || entry.end - entry.begin != entry.spec.bytes())
      return fail("its data_offsets do not match its shape");
    return entry;
  }

  int depth_ = 0;  // header 1, tensor 2, list 3
  std::vector<HeaderEntry> entries_;
  std::unordered_set<std::string> names_;
  std::string wrong_;
  // The tensor that is being read:
  std::string name_, field_;
  bool in_metadata_ = false;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

}  // namespace

Result<std::vector<HeaderEntry>> parse_header(const std::string& text, std::uint64_t data_bytes) {
  HeaderReader reader;
  if (is_deeper_than(text, kMaxDepth)) return fail(kNoHeader);
  if (!nlohmann::json::sax_parse(text, &reader))
    return fail(reader.wrong().empty() ? kNoHeader : reader.wrong());
  std::vector<HeaderEntry> entries = reader.take_entries();
  std::ranges::sort(entries, {}, [](const HeaderEntry& each) { return std::pair(each.begin, each.end); });
  std::uint64_t next = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != next)
      return fail(str("tensor ", entry.spec.name, " overlaps another, or there is a gap before it"));
    next = entry.end;
  }
  if (next != data_bytes) return fail(str("it has ", data_bytes, " bytes of data, its header has ", next));
  return entries;
}

}  // namespace rekindle::checkpoint
