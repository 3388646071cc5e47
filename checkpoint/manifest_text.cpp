#include "checkpoint/manifest_text.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest_check.hpp"

namespace rekindle::checkpoint {
namespace {

// For reading: the text may have any number of keys, from any source. An ordered_json searches all keys of an
// object for each new key.
using Json = nlohmann::json;
// For writing: a few keys, in the order of the format.
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "rekindle-checkpoint";
constexpr int kMaxDepth = 64;  // nlohmann copies and dumps by recursion
constexpr std::array<std::pair<Role, const char*>, 3> kRoles = {
    {{Role::kParameter, "parameter"}, {Role::kBuffer, "buffer"}, {Role::kOptimizer, "optimizer"}}};
// The end of the file: kTailBegin, 32 hex digits, kTailEnd.
constexpr std::string_view kTailBegin = "  \"checksum\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr std::size_t kHashDigits = 32;

Result<Json> parse_json(const std::string& text) {
  if (is_deeper_than(text, kMaxDepth)) return fail("JSON is nested too deeply");
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail("not a JSON object");
  return json;
}

// The readers below look for one field of an object and refuse all other types.
tl::unexpected<Error> bad_field(const char* key) {
  return fail(str("field '", key, "' is missing or wrong"));
}

Result<const Json*> field(const Json& json, const char* key, bool (Json::*is_type)() const noexcept) {
  if (!json.is_object()) return fail(str("an object with field '", key, "' is missing"));
  const auto found = json.find(key);
  if (found == json.end() || !((*found).*is_type)()) return bad_field(key);
  return &*found;
}

Result<std::uint64_t> number_in(const Json& json, const char* key) {
  REKINDLE_TRY(const Json* value, field(json, key, &Json::is_number_unsigned));
  return value->get<std::uint64_t>();
}

Result<std::int64_t> signed_in(const Json& json, const char* key) {
  REKINDLE_TRY(const std::uint64_t value, number_in(json, key));
  if (value > std::numeric_limits<std::int64_t>::max()) return bad_field(key);
  return static_cast<std::int64_t>(value);
}

Result<std::string> text_in(const Json& json, const char* key) {
  REKINDLE_TRY(const Json* value, field(json, key, &Json::is_string));
  return value->get<std::string>();
}

Result<Hash128> hash_from(const Json& json, const char* key) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!json.is_string()) return bad_field(key);
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() != kHashDigits || !std::ranges::all_of(text, is_digit)) return bad_field(key);
  return Hash128{std::stoull(text.substr(0, kHashDigits / 2), nullptr, 16),
                 std::stoull(text.substr(kHashDigits / 2), nullptr, 16)};
}

OrderedJson shard_json(const ShardEntry& entry) {
  OrderedJson datasets = OrderedJson::array();
  for (const DatasetEntry& dataset : entry.datasets) {
    datasets.push_back({{"name", dataset.name},
                        {"first_row", dataset.first_row},
                        {"rows", dataset.rows},
                        {"offset", dataset.offset},
                        {"bytes", dataset.bytes}});
  }
  return {{"file", entry.file}, {"bytes", entry.bytes}, {"frame", entry.frame.hex()}, {"datasets", datasets}};
}

Result<ShardEntry> shard_from(const Json& json) {
  ShardEntry entry;
  REKINDLE_TRY(entry.file, text_in(json, "file"));
  REKINDLE_TRY(entry.bytes, number_in(json, "bytes"));
  REKINDLE_TRY(const Json* frame, field(json, "frame", &Json::is_string));
  REKINDLE_TRY(entry.frame, hash_from(*frame, "frame"));
  REKINDLE_TRY(const Json* datasets, field(json, "datasets", &Json::is_array));
  for (const Json& item : *datasets) {
    DatasetEntry dataset;
    REKINDLE_TRY(dataset.name, text_in(item, "name"));
    REKINDLE_TRY(dataset.first_row, signed_in(item, "first_row"));
    REKINDLE_TRY(dataset.rows, signed_in(item, "rows"));
    REKINDLE_TRY(dataset.offset, number_in(item, "offset"));
    REKINDLE_TRY(dataset.bytes, number_in(item, "bytes"));
    entry.datasets.push_back(std::move(dataset));
  }
  return entry;
}

OrderedJson tensor_json(const TensorSpec& tensor) {
  const auto* role = std::ranges::find(kRoles, tensor.role, &std::pair<Role, const char*>::first);
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", OrderedJson(tensor.shape)},
          {"role", role->second}};
}

std::vector<OrderedJson> contents_json(const Contents& contents) {
  std::vector<OrderedJson> tensors;
  auto chunk = contents.chunks.begin();
  for (const TensorSpec& tensor : contents.tensors) {
    OrderedJson chunks = OrderedJson::array();
    for (std::uint64_t i = chunks_in(tensor); i > 0; --i) chunks.push_back((chunk++)->hex());
    tensors.push_back(tensor_json(tensor));
    tensors.back()["chunks"] = std::move(chunks);
  }
  return tensors;
}

Result<TensorSpec> tensor_from(const Json& json) {
  TensorSpec tensor;
  REKINDLE_TRY(tensor.name, text_in(json, "name"));
  REKINDLE_TRY(const std::string dtype, text_in(json, "dtype"));
  const auto known = dtype_named(dtype);
  if (!known) return bad_field("dtype");
  tensor.dtype = *known;
  REKINDLE_TRY(const Json* shape, field(json, "shape", &Json::is_array));
  for (const Json& item : *shape) {
    if (!item.is_number_unsigned()) return bad_field("shape");
    const auto dimension = item.get<std::uint64_t>();
    if (dimension > std::numeric_limits<std::int64_t>::max()) return bad_field("shape");
    tensor.shape.push_back(static_cast<std::int64_t>(dimension));
  }
  REKINDLE_TRY(const std::string role, text_in(json, "role"));
  const auto* named = std::ranges::find_if(kRoles, [&role](const auto& each) { return role == each.second; });
  if (named == kRoles.end()) return bad_field("role");
  tensor.role = named->first;
  return tensor;
}

// The tensors of one object, each with as many hashes as it has chunks.
Result<Contents> contents_from(const Json& json) {
  REKINDLE_TRY(const Json* tensors, field(json, "tensors", &Json::is_array));
  Contents contents;
  for (const Json& item : *tensors) {
    REKINDLE_TRY(TensorSpec tensor, tensor_from(item));
    REKINDLE_CHECK(check_tensor(tensor));  // first: the shape may have any values
    REKINDLE_TRY(const Json* chunks, field(item, "chunks", &Json::is_array));
    if (chunks->size() != chunks_in(tensor)) return bad_field("chunks");
    for (const Json& chunk : *chunks) {
      REKINDLE_TRY(const Hash128 hash, hash_from(chunk, "chunks"));
      contents.chunks.push_back(hash);
    }
    contents.tensors.push_back(std::move(tensor));
  }
  return contents;
}

// One entry a line, so that a diff of two manifests is readable.
std::string lines(const std::vector<OrderedJson>& items) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) text += str(i == 0 ? "\n    " : ",\n    ", items[i].dump());
  return text + (items.empty() ? "]" : "\n  ]");
}

Result<Manifest> manifest_from(const Json& json) {
  REKINDLE_TRY(const std::string format, text_in(json, "format"));
  REKINDLE_TRY(const std::uint64_t version, number_in(json, "version"));
  if (format != kFormat) return bad_field("format");
  if (version != kFormatVersion)
    return fail(ExitCode::kConfig,
                str("its format is version ", version, ", this program reads version ", kFormatVersion),
                "use the rekindle that wrote it");
  Manifest manifest;
  REKINDLE_TRY(manifest.id.step, number_in(json, "step"));
  REKINDLE_TRY(manifest.id.term, number_in(json, "term"));
  REKINDLE_TRY(manifest.id.generation, number_in(json, "generation"));
  REKINDLE_TRY(manifest.created, text_in(json, "created"));
  REKINDLE_TRY(manifest.digest, text_in(json, "digest"));
  REKINDLE_TRY(const Json* identity, field(json, "identity", &Json::is_object));
  REKINDLE_TRY(const Json* fingerprint, field(json, "fingerprint", &Json::is_object));
  manifest.identity = identity->dump();
  manifest.fingerprint = fingerprint->dump();
  REKINDLE_TRY(manifest.contents, contents_from(json));
  REKINDLE_TRY(const Json* shards, field(json, "shards", &Json::is_array));
  for (const Json& item : *shards) {
    REKINDLE_TRY(ShardEntry entry, shard_from(item));
    manifest.shards.push_back(std::move(entry));
  }
  return manifest;
}

}  // namespace

std::string to_json(const ShardEntry& entry) { return shard_json(entry).dump(); }

Result<ShardEntry> shard_entry_from_json(const std::string& text) {
  REKINDLE_TRY(const Json json, parse_json(text));
  return shard_from(json);
}

std::string to_json(const Contents& contents) {
  return OrderedJson{{"tensors", contents_json(contents)}}.dump();
}

Result<Contents> contents_from_json(const std::string& text) {
  REKINDLE_TRY(const Json json, parse_json(text));
  return contents_from(json);
}

Result<std::string> manifest_text(const Manifest& manifest) {
  REKINDLE_TRY(const Json identity, parse_json(manifest.identity));
  REKINDLE_TRY(const Json fingerprint, parse_json(manifest.fingerprint));
  std::vector<OrderedJson> shards;
  for (const ShardEntry& entry : manifest.shards) shards.push_back(shard_json(entry));
  std::string text = str("{\n  \"format\": \"", kFormat, "\",\n  \"version\": ", kFormatVersion,
                         ",\n  \"step\": ", manifest.id.step, ",\n  \"term\": ", manifest.id.term,
                         ",\n  \"generation\": ", manifest.id.generation,
                         ",\n  \"created\": ", Json(manifest.created).dump(),
                         ",\n  \"digest\": ", Json(manifest.digest).dump(),
                         ",\n  \"identity\": ", identity.dump(), ",\n  \"fingerprint\": ", fingerprint.dump(),
                         ",\n  \"tensors\": ", lines(contents_json(manifest.contents)),
                         ",\n  \"shards\": ", lines(shards), ",\n");
  const Hash128 checksum = hash128(std::as_bytes(std::span(text)));
  return str(text, kTailBegin, checksum.hex(), kTailEnd);
}

Result<Manifest> parse_manifest(const std::string& text) {
  constexpr std::size_t kTail = kTailBegin.size() + kHashDigits + kTailEnd.size();
  const std::string_view all = text;
  if (all.size() < kTail) return fail("too short");
  const std::string_view tail = all.substr(all.size() - kTail);
  const Hash128 checksum = hash128(std::as_bytes(std::span(all.substr(0, all.size() - kTail))));
  if (tail != str(kTailBegin, checksum.hex(), kTailEnd)) return fail("its checksum does not match");
  REKINDLE_TRY(const Json json, parse_json(text));
  return manifest_from(json);
}

}  // namespace rekindle::checkpoint
