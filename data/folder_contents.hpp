// The hashes of the files of an image folder: noted when a file is first read, compared at each later read,
// and kept beside the data for later processes. Internal to data/.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"

namespace rekindle::data {

// Thread-safe. Several processes may append to the same file: a record has one write and its own checksum,
// and a record that is lost or damaged is noted again.
class FolderContents {
 public:
  // `identity`: of the listing. `count`: its files, of both splits. Hashes of another listing are not used.
  FolderContents(std::filesystem::path root, const Hash128& identity, std::size_t count);
  ~FolderContents();

  // An error (ExitCode::kConfig) that names `path` if file `number` had another content before.
  Status check(std::size_t number, const Hash128& hash, const std::string& path);

  // Of a file that the process has found to be corrupt.
  bool is_corrupt(std::size_t number);
  // False if it was noted before. `corrupt`: how many there are now.
  bool note_corrupt(std::size_t number, std::size_t& corrupt);

 private:
  struct Record;

  void load();
  void append();  // this and the next under the mutex
  void append_if_due();

  const std::filesystem::path file_;
  const Hash128 identity_;
  std::mutex mutex_;
  std::vector<Hash128> hashes_;  // of each file; zero: unknown
  std::vector<bool> corrupt_;
  std::size_t corrupt_count_ = 0;
  std::string pending_;  // records that are not written yet
  std::chrono::steady_clock::time_point appended_;
};

std::filesystem::path contents_path(const std::filesystem::path& root);

}  // namespace rekindle::data
