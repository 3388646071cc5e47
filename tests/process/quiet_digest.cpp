// Digests of undisturbed runs, kept for the tests that come later: a part of harness.hpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

// Changes with each build.
std::string build_of_programs() {
  std::string text;
  for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
    const fs::path program = fs::path(rekindle()).parent_path() / name;
    std::error_code code;
    text += str(program.string(), fs::last_write_time(program, code).time_since_epoch().count(), " ",
                fs::file_size(program, code), "\n");
  }
  return text;
}

// Only this user's: what others could write is no reference.
fs::path folder_of_digests() {
  const fs::path folder = fs::temp_directory_path() / str("rekindle-digests-", ::geteuid());
  ::mkdir(folder.c_str(), S_IRWXU);
  struct stat info {};
  const bool own = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                   info.st_uid == ::geteuid() && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  return own ? folder : fs::path("/nonexistent");  // then nothing is kept
}

}  // namespace

std::string quiet_digest(int steps) {
  std::string key = build_of_programs();
  for (const std::string& word : mnist_run("", 1, steps))
    if (word != mnist_data()) key += word + "\n";
  const fs::path file = folder_of_digests() / hex64(hash64(std::as_bytes(std::span(key))));
  // Another test may be making it.
  const Fd lock(::open(str(file.string(), ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  while (lock && ::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) continue;
  if (auto known = read_text(FilePath(file)); known && !known->empty()) return *known;
  const Scratch scratch;
  const Outcome outcome = run(mnist_run(scratch / "quiet", 1, steps));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::string digest = digest_of(scratch / "quiet");
  EXPECT_FALSE(digest.starts_with("error: ")) << digest;
  if (outcome.exit_code == 0 && !digest.starts_with("error: ") && lock)
    std::ignore = replace_file_quickly(FilePath(file), digest);
  return digest;
}

int common_steps_after(std::uint64_t reached) {
  constexpr int kApart = 25;
  return (static_cast<int>(reached) / kApart + 1) * kApart;
}

}  // namespace rekindle::process_test
