#include "app/audit_checks.hpp"

#include <algorithm>

#include "app/places.hpp"
#include "base/text.hpp"
#include "protocol/identity.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {

using checkpoint::Contents;
using checkpoint::Manifest;

Result<Manifest> verified_manifest(const run::Layout& run, std::uint64_t step) {
  REKINDLE_TRY(const FilePath directory, checkpoint_of(run.root(), step));
  auto manifest = checkpoint::read_manifest(directory);
  const Status complete =
      manifest ? checkpoint::verify(directory, *manifest) : Status(forward_error(manifest.error()));
  if (complete) return manifest;
  // For example a read error: the checkpoint may be undamaged.
  if (complete.error().kind != ErrorKind::kDamage) return forward_error(complete.error());
  return fail(ExitCode::kConfig, complete.error().what, "audit between undamaged checkpoints");
}

Result<nlohmann::json> identity_of(const Manifest& manifest) {
  return protocol::identity_from_text(manifest.identity,
                                      str("the identity of checkpoint ", manifest.id.directory_name()));
}

Status check_identity(const protocol::Job& job, const nlohmann::json& identity, const char* here) {
  const std::string other = protocol::first_difference(protocol::identity_of(job), identity);
  if (other.empty()) return {};
  return fail(ExitCode::kConfig,
              str("the checkpoint is from another run: its ", other, " differs from ", here));
}

Status check_same_run(const Manifest& from, const Manifest& to) {
  REKINDLE_TRY(nlohmann::json theirs, identity_of(from));
  REKINDLE_TRY(const nlohmann::json ours, identity_of(to));
  const std::string key = protocol::difference_until(from.id.step, std::move(theirs), ours);
  if (key.empty()) return {};
  return fail(ExitCode::kConfig, str(key, " changed between steps ", from.id.step, " and ", to.id.step),
              "audit only between checkpoints on the same side of the change");
}

std::string first_difference(const Contents& a, const Contents& b) {
  if (a.tensors != b.tensors) return "the tensors themselves";
  const auto chunks = checkpoint::chunks_of(a.tensors);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (a.chunks[i] == b.chunks[i]) continue;
    const std::int64_t last = chunks[i].first_row + chunks[i].rows - 1;
    return str("rows ", chunks[i].first_row, " to ", last, " of ", a.tensors[chunks[i].tensor].name);
  }
  return "";
}

std::string other_circumstances(const Manifest& then, const Manifest& now) {
  const auto before = nlohmann::json::parse(then.fingerprint, nullptr, false);
  const auto after = nlohmann::json::parse(now.fingerprint, nullptr, false);
  const std::string key = protocol::first_difference(before, after);
  if (key.empty()) return "";
  const auto text = [&key](const nlohmann::json& j) {
    return j.contains(key) ? j.at(key).dump() : "not set";
  };
  return str("; ", key, " was ", text(before), " then and is ", text(after), " now");
}

}  // namespace rekindle::app
