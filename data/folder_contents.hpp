// The hashes of the files of an image folder: noted when a file is first read, compared at each later read,
// and kept beside the data for later processes. Internal to data/.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"

namespace rekindle::data {

// The file with the hashes is ignored if another user may write to it, or if it is no regular file with one
// name: the folder may belong to another user. Then the hashes are kept in memory only.
//
// Thread-safe. Several processes may append to the same file: a record has one write and its own checksum,
// and a record that is lost or damaged is noted again.
class FolderContents {
 public:
  // `identity`: of the listing. `count`: its files, of both splits. Hashes of another listing are not used.
  // `skips_corrupt`: a file that cannot be decoded is part of what this process computes, so its hash counts,
  // too.
  FolderContents(std::filesystem::path root, const Hash128& identity, std::size_t count, bool skips_corrupt);
  ~FolderContents();

  // An error (ExitCode::kConfig) that names `path` if file `number` had another content before.
  Status check(std::size_t number, const Hash128& hash, const std::string& path);
  // The hash of a file that was decoded. A hash that was noted before counts.
  void note(std::size_t number, const Hash128& hash);

  // Of a file that the process has found to be corrupt.
  bool is_corrupt(std::size_t number);
  // The same for a file that cannot be decoded. Without `skips_corrupt` such a file ends the run, and the
  // hash is not noted: the storage may have returned wrong bytes once, and every later run would refuse the
  // correct file. False if it was noted before.
  bool note_corrupt(std::size_t number, const Hash128& hash);

 private:
  struct Record;

  void load();
  void record(std::uint64_t number, const Hash128& hash);  // this and the next under the mutex
  void append();
  void append_if_due();

  const std::filesystem::path file_;
  const Hash128 identity_;
  std::mutex mutex_;
  std::vector<Hash128> hashes_;  // of each file; zero: unknown
  const bool skips_corrupt_;
  std::map<std::uint64_t, Hash128> corrupt_hashes_;  // of files that could not be decoded
  std::vector<bool> corrupt_;                        // found by this process
  std::string pending_;                              // records that are not written yet
  std::chrono::steady_clock::time_point appended_;
};

std::filesystem::path contents_path(const std::filesystem::path& root);

}  // namespace rekindle::data
