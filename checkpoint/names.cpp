#include "checkpoint/names.hpp"

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::size_t kMaxNameBytes = 1024;

// Removes `prefix` and a number from the start of `text`.
bool take_number(std::string_view& text, std::string_view prefix, std::uint64_t& value) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool is_utf8(std::string_view text) {
  // nlohmann's strict serializer decides, because it would fail later on other names.
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

std::string CheckpointId::directory_name() const {
  char number[32];
  std::snprintf(number, sizeof number, "%010llu", static_cast<unsigned long long>(step));
  return str("step-", number, ".t", term, ".g", generation);
}

std::optional<CheckpointId> CheckpointId::parse(std::string_view directory_name) {
  CheckpointId id;
  std::string_view rest = directory_name;
  if (!take_number(rest, "step-", id.step) || !take_number(rest, ".t", id.term) ||
      !take_number(rest, ".g", id.generation)) {
    return std::nullopt;
  }
  // Only one spelling: "step-7.t01.g1" would be a second name of the same checkpoint.
  if (!rest.empty() || id.directory_name() != directory_name) return std::nullopt;
  return id;
}

FilePath checkpoints_of(const FilePath& run_dir) { return run_dir / "checkpoints"; }

FilePath directory_of(const FilePath& run_dir, const CheckpointId& id) {
  return checkpoints_of(run_dir) / id.directory_name();
}

Result<std::optional<struct stat>> look_at_manifest(const FilePath& checkpoint_dir) {
  const FilePath manifest = checkpoint_dir / kManifestFile;
  auto info = look_strictly_at(manifest);
  if (info && *info && S_ISLNK((*info)->st_mode))
    REKINDLE_CHECK(open_file(manifest, O_RDONLY));  // for its error
  return info;
}

std::string shard_file_name(std::size_t shards, std::size_t shard) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05zu-of-%05zu.h5", shard, shards);
  return name;
}

Status check_tensor_name(std::string_view name) {
  if (name.empty() || name == "." || name.size() > kMaxNameBytes ||
      name.find('/') != std::string_view::npos || has_control_characters(name) || !is_utf8(name)) {
    return fail(str("a tensor cannot be named ",
                    nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)),
                str("names are UTF-8 of 1 to ", kMaxNameBytes,
                    " bytes, not '.', without '/' and control characters"));
  }
  return {};
}

}  // namespace rekindle::checkpoint
