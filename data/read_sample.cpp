#include "data/read_sample.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace rekindle::data {
namespace {

// The values of one sample in a batch: one, or one for each token.
std::span<const std::int64_t> values_of(const std::vector<std::int64_t>& all, std::size_t place,
                                        std::size_t samples) {
  const std::size_t each = samples == 0 ? 0 : all.size() / samples;
  return std::span(all).subspan(place * each, each);
}

Status check_values(const DatasetInfo& info, Split split, std::size_t index, const Batch& batch,
                    std::size_t place) {
  const auto wrong = [&](const std::vector<std::int64_t>& all, const char* what, bool may_be_none) -> Status {
    const auto values = values_of(all, place, batch.samples.size());
    const auto found = std::ranges::find_if(values, [&](std::int64_t value) {
      return (value < 0 || value >= info.classes) && !(may_be_none && value == kNoLabel);
    });
    if (found == values.end()) return {};
    return forward_error(Error{
        ExitCode::kConfig,
        str(split == Split::kTrain ? "training" : "test", " sample ", index, " has ", what, " ", *found,
            ", and the data set ", info.kind, " has ", info.classes, " classes"),
        str("it has to be 0 to ", info.classes - 1, may_be_none ? str(", or ", kNoLabel) : std::string()),
        ErrorKind::kDamage});
  };
  REKINDLE_CHECK(wrong(batch.labels, "label", true));
  return wrong(batch.tokens, "token", false);
}

}  // namespace

Status read_sample(const Dataset& dataset, Split split, std::size_t index, const TransformConfig& config,
                   std::uint64_t key, Batch& batch, std::size_t place) {
  Status read = dataset.read(split, index, config, key, batch, place);
  if (read) return check_values(dataset.info(), split, index, batch, place);
  if (read.error().kind != ErrorKind::kOther) return read;
  Error error = std::move(read.error());
  error.code = ExitCode::kConfig;
  error.kind = ErrorKind::kDamage;
  return forward_error(std::move(error));
}

}  // namespace rekindle::data
