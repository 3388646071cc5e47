#include "board/token.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/guarded_file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::board {
namespace {

constexpr std::size_t kBytes = 24, kMostBytes = 4096;
constexpr const char* kOtherFolder = "set XDG_STATE_HOME to a folder that can be written";

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

// That only this user can read and change a file.
Status check_private(const FilePath& file) {
  REKINDLE_TRY(const auto info, look_at(file));
  if (!info) return fail(ExitCode::kConfig, str(file.string(), " is not there"));
  if (info->st_uid != ::geteuid() || (info->st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(ExitCode::kConfig, str("other users can read or change ", file.string()),
                str("it must be yours: chmod 600 ", file.string()));
  return {};
}

}  // namespace

Result<std::string> take_token(const FilePath& file) {
  if (path_exists(file)) {
    REKINDLE_CHECK(check_private(file));
    REKINDLE_TRY(const std::string text, read_text(file, kMostBytes));
    if (const std::string token = first_line(text); token.size() >= kBytes) return token;
  }
  const std::string token = random_hex(kBytes);
  constexpr unsigned kOwnersOnly = 0600;
  REKINDLE_CHECK(replace_file(file, token + "\n", kOwnersOnly));
  return token;
}

Result<std::string> read_token(const std::filesystem::path& file) {
  const FilePath path(file);
  REKINDLE_CHECK(check_private(path));
  REKINDLE_TRY(const std::string text, read_text(path, kMostBytes));
  const std::string token = first_line(text);
  constexpr std::size_t kShortest = 16;
  if (token.size() < kShortest)
    return fail(ExitCode::kConfig, str("the token in ", file.string(), " is shorter than 16 characters"));
  return token;
}

Result<FilePath> board_token_file() {
  std::filesystem::path state = environment_variable("XDG_STATE_HOME");
  if (!state.is_absolute()) {
    const std::filesystem::path home = environment_variable("HOME");
    if (!home.is_absolute())
      return fail(ExitCode::kConfig, "neither XDG_STATE_HOME nor HOME is set", kOtherFolder);
    state = home / ".local/state";
  }
  const FilePath folder(state / "rekindle");
  constexpr unsigned kOwnersOnly = 0700;
  // In a container, the user often has no home, or the root is read-only.
  if (const Status made = make_directories(folder, kOwnersOnly); !made)
    return fail(ExitCode::kConfig, made.error().what, kOtherFolder);
  const FilePath file = folder / "board-token";
  if (!path_exists(file) && !is_writable(folder))
    return fail(ExitCode::kConfig, str("cannot write into ", folder.string()), kOtherFolder);
  return file;
}

}  // namespace rekindle::board
