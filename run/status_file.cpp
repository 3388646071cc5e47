#include "run/status_file.hpp"

#include "base/files.hpp"
#include "base/json_reader.hpp"

namespace rekindle::run {
namespace {

constexpr JsonField kStatusFields[] = {
    {"state", JsonType::kText},           {"term", JsonType::kWhole},
    {"attempt", JsonType::kWhole},        {"generation", JsonType::kText},
    {"phase", JsonType::kText},           {"step", JsonType::kWhole},
    {"steps", JsonType::kWhole},          {"epoch", JsonType::kWhole},
    {"loss", JsonType::kNumberOrNull},    {"images_per_second", JsonType::kNumberOrNull},
    {"peak_pss_bytes", JsonType::kWhole}, {"trainers", JsonType::kObjects},
    {"voided_steps", JsonType::kWhole},   {"end", JsonType::kText},
    {"updated", JsonType::kText}};
constexpr JsonField kTrainerFields[] = {{"trainer", JsonType::kText},
                                        {"rank", JsonType::kInt},
                                        {"host", JsonType::kText},
                                        {"device", JsonType::kText},
                                        {"pid", JsonType::kWhole},
                                        {"phase", JsonType::kText},
                                        {"step", JsonType::kWhole},
                                        {"peak_pss_bytes", JsonType::kWhole},
                                        {"cpu_percent", JsonType::kWhole},
                                        {"memory_bytes", JsonType::kWhole},
                                        {"slow", JsonType::kBool},
                                        {"gpu", JsonType::kText},
                                        {"gpu_used_bytes", JsonType::kWhole},
                                        {"gpu_total_bytes", JsonType::kWhole},
                                        {"gpu_busy_percent", JsonType::kWhole}};

}  // namespace

Result<nlohmann::json> read_status(const Layout& layout) {
  const std::string path = layout.status().string();
  auto text = read_text(layout.status(), JsonLimits{}.bytes);
  // On NFS the file may go while it is read, because another one takes its place.
  constexpr int kTries = 3;
  for (int tries = 1; !text && text.error().code != ExitCode::kConfig; ++tries) {
    REKINDLE_TRY(const auto there, look_at(layout.status()));
    if (!there) return nlohmann::json::object();
    if (tries == kTries) return forward_error(text.error());
    text = read_text(layout.status(), JsonLimits{}.bytes);
  }
  // The file is written without fsync, so a crash may leave it empty.
  if (text && text->empty()) return nlohmann::json::object();
  const auto wrong = [](const Error& error) {
    return fail(ExitCode::kConfig, error.what, "remove the file; the run writes a new one");
  };
  if (!text) return wrong(text.error());
  auto status = parse_object(*text, kStatusFields, path);
  if (!status) return wrong(status.error());
  if (const Status trainers = check_objects(*status, "trainers", kTrainerFields, path); !trainers)
    return wrong(trainers.error());
  return status;
}

}  // namespace rekindle::run
