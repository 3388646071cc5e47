// https://github.com/huggingface/safetensors#format
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;  // a hundred thousand tensors
constexpr int kMaxDepth = 3;                                        // header, tensor, shape

struct Entry {
  TensorSpec spec;
  std::uint64_t begin = 0, end = 0;  // from the header's end
};

tl::unexpected<Error> bad_file(const FilePath& path, const std::string& why) {
  return fail(ExitCode::kConfig, str(path.string(), " cannot be used: ", why),
              "give a whole .safetensors file of float32 tensors");
}

Result<Json> parse_header(const std::string& text) {
  bool deep = false;
  std::optional<std::string> twice;
  std::set<std::string> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    deep = deep || depth > kMaxDepth;
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return !deep;  // what lies deeper is not kept
  };
  Json json = Json::parse(text, watch, false);
  if (deep || !json.is_object()) return fail("its header is not a JSON object of tensors");
  if (twice) return fail(str("tensor ", *twice, " is in it twice"));
  return json;
}

std::optional<std::uint64_t> whole_number(const Json& json) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) return std::nullopt;
  return json.get<std::uint64_t>();
}

Result<std::vector<std::uint64_t>> whole_numbers(const Json& tensor, const char* key) {
  const auto list = tensor.find(key);
  if (list == tensor.end() || !list->is_array()) return fail(str("its ", key, " is missing"));
  std::vector<std::uint64_t> numbers;
  for (const Json& item : *list) {
    const auto number = whole_number(item);
    if (!number) return fail(str("its ", key, " is not a list of whole numbers"));
    numbers.push_back(*number);
  }
  return numbers;
}

Result<Dtype> dtype_in(const Json& tensor) {
  const auto name = tensor.find("dtype");
  if (name == tensor.end() || !name->is_string()) return fail("its dtype is missing");
  const auto* known = std::ranges::find_if(
      kDtypes, [&name](Dtype each) { return name->get_ref<const std::string&>() == safetensors_name(each); });
  if (known == kDtypes.end()) return fail(str("its dtype ", name->get<std::string>(), " is not known here"));
  return *known;
}

Result<Entry> entry_from(const std::string& name, const Json& json) {
  if (!json.is_object()) return fail("it is not described");
  Entry entry;
  entry.spec.name = name;
  REKINDLE_TRY(entry.spec.dtype, dtype_in(json));
  REKINDLE_TRY(const auto shape, whole_numbers(json, "shape"));
  entry.spec.shape.assign(shape.begin(), shape.end());
  REKINDLE_CHECK(check_tensor(entry.spec));
  REKINDLE_TRY(const auto offsets, whole_numbers(json, "data_offsets"));
  if (offsets.size() != 2) return fail("its data_offsets are not two numbers");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end < entry.begin || entry.end - entry.begin != entry.spec.bytes())
    return fail("its data_offsets and its shape do not agree");
  return entry;
}

bool is_map_of_strings(const Json& json) {
  return json.is_object() && std::ranges::all_of(json, [](const Json& each) { return each.is_string(); });
}

// In order of their data, which they must fill without gaps or overlaps: as the format asks.
Result<std::vector<Entry>> entries_from(const Json& header, std::uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata) {
      if (!is_map_of_strings(json)) return fail(str("its ", kMetadata, " is not a map of strings"));
      continue;
    }
    auto entry = entry_from(name, json);
    if (!entry) return fail(str("tensor ", name, ": ", entry.error().line()));
    entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, [](const Entry& each) { return std::pair(each.begin, each.end); });
  std::uint64_t next = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != next)
      return fail(str("tensor ", entry.spec.name, " overlaps another, or there is a gap before it"));
    next = entry.end;
  }
  if (next != data_bytes) return fail(str("it has ", data_bytes, " bytes of data, its header says ", next));
  return entries;
}

Result<std::uint64_t> size_of(const Fd& fd, const FilePath& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("it is no plain file");
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

std::span<std::byte> Tensors::add(const TensorSpec& spec) {
  auto& bytes = storage.emplace_back(spec.bytes());
  state.push_back({spec, bytes});
  return bytes;
}

Result<SafetensorsFile> SafetensorsFile::open(const FilePath& path) {
  SafetensorsFile file;
  file.path_ = path;
  auto opened = open_file(path, O_RDONLY | O_NONBLOCK);  // nonblocking: it might be a pipe
  if (!opened)
    return fail(ExitCode::kConfig, opened.error().what, "give the path of a file that can be read");
  file.fd_ = std::move(*opened);
  const auto size = size_of(file.fd_, path);
  if (!size) return bad_file(path, size.error().what);
  std::uint64_t header_bytes = 0;
  constexpr std::uint64_t kPrefix = sizeof header_bytes;
  if (*size < kPrefix) return bad_file(path, "it is too short");
  REKINDLE_CHECK(read_into(file.fd_.get(), path, 0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kMaxHeaderBytes || header_bytes > *size - kPrefix)
    return bad_file(path, str("its header would have ", header_bytes, " bytes"));
  std::string text(header_bytes, '\0');
  REKINDLE_CHECK(read_into(file.fd_.get(), path, kPrefix, std::as_writable_bytes(std::span(text))));
  const auto header = parse_header(text);
  if (!header) return bad_file(path, header.error().what);
  auto entries = entries_from(*header, *size - kPrefix - header_bytes);
  if (!entries) return bad_file(path, entries.error().what);
  for (Entry& entry : *entries) {
    file.offsets_.push_back(kPrefix + header_bytes + entry.begin);
    file.tensors_.push_back(std::move(entry.spec));
  }
  return file;
}

Status SafetensorsFile::read(std::size_t tensor, std::span<std::byte> out) const {
  return read_into(fd_.get(), path_, offsets_[tensor], out);
}

Result<Tensors> read_safetensors(const FilePath& path) {
  REKINDLE_TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  Tensors tensors;
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    REKINDLE_CHECK(file.read(i, tensors.add(file.tensors()[i])));
  return tensors;
}

}  // namespace rekindle::checkpoint
