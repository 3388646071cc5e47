// Any bytes as each of the files of a run directory that other processes read: never more than an error. The
// first byte chooses the file.
#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "../read_lines.hpp"
#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "require.hpp"
#include "run/layout.hpp"
#include "run/place.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"

namespace rekindle::run {
namespace {

// In memory, one for this process.
const Layout& directory() {
  static const TemporaryDirectory memory("/dev/shm");
  static const Layout layout(memory.path());
  static const bool made = fs::create_directories(layout.terms().path());
  require(made, "there is no directory");
  return layout;
}

void write(const FilePath& path, std::string_view text) {
  const auto fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  require(fd && write_all(fd->get(), path, 0, std::as_bytes(std::span(text))), "it cannot be written");
}

void read_records(const Layout& layout, const FilePath& file) {
  for (const nlohmann::json& line : read_lines(file)) {
    std::ignore = line.value("event", "") + line.value("cause", "") + line.value("job", "");
    std::ignore = line.value("step", std::uint64_t{0}) + line.value("number", std::uint64_t{0});
    std::ignore = line.dump();
  }
  std::ignore = recorded(layout);
  std::ignore = best_evaluated(layout, {1, 2, 3}, {});
  std::ignore = last_evaluation(layout);
  std::ignore = next_attempt(layout);
}

void use(const Layout& layout, char file, std::string_view text) {
  switch (file) {
    case 'c':
      write(layout.terms() / "0001", text);
      if (const auto holder = newest_term(layout); holder && *holder) {
        std::ignore = looks_gone(**holder);
        std::ignore = supervisor_gone(**holder);
        std::ignore = held_error(layout, **holder);
      }
      return;
    case 's':
      write(layout.status(), text);
      if (const auto status = read_status(layout)) std::ignore = status->dump();
      return;
    case 'p':
      write(layout.coordinator(), text);
      std::ignore = read_place(layout);
      return;
    case 'a':
      write(layout.attempts(), text);
      return read_records(layout, layout.attempts());
    default:
      write(layout.metrics(), text);
      read_records(layout, layout.metrics());
      require(MetricsFile(layout).append({{"step", 1}}).has_value(), "nothing can be appended to it");
      require(MetricsFile(layout).rewind(3).has_value(), "it cannot be rewound");
      require(recorded(layout).step <= 3, "it was not rewound");
  }
}

}  // namespace
}  // namespace rekindle::run

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  rekindle::run::use(rekindle::run::directory(), static_cast<char>(data[0]),
                     std::string_view(reinterpret_cast<const char*>(data + 1), size - 1));
  return 0;
}
