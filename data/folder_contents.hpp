// The hashes of the files of an image folder: noted when a file is first read, compared at each later read,
// and kept for other processes of now and later (data/folder_notes.hpp). Internal to data/.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"

namespace rekindle::data {

// The file with the hashes is ignored if another user may write to it, or if it is no regular file with one
// name: the folder may belong to another user. Then the hashes are kept in memory only.
//
// Thread-safe. Several processes may append to the same file: a record has its own checksum, and a record
// that is lost or damaged is noted again. Each process reads what the others have appended before it appends,
// so that the file has about one record for each image, however many processes read all of them.
class FolderContents {
 public:
  // `identity`: of the listing. `count`: its files, of both splits. Hashes of another listing are not used,
  // and stay in the file for it. `skips_corrupt`: a file that cannot be decoded is part of what this process
  // computes, so its hash counts, too.
  FolderContents(const std::filesystem::path& root, const Hash128& identity, std::size_t count,
                 bool skips_corrupt);
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
  struct Record {
    std::uint64_t number = 0, high = 0, low = 0;
    std::uint64_t checksum = 0;  // XXH3-64 of the other fields and the identity
    std::uint64_t sum(const Hash128& identity) const;
  };

  // A file with hashes.
  struct Note {
    FilePath place;
    ino_t inode = 0;        // of the file that was read last
    std::size_t read = 0;   // of it, in bytes
    std::vector<bool> has;  // whether it has the hash of an image
  };
  enum class Found { kOurs, kNone, kForeign };  // kForeign: also a file that cannot be read now

  // All of these under the mutex.
  // Reads the records that were appended since the last time.
  Found read(Note& note);
  std::size_t take_records(std::string_view bytes, Note& note);  // how many bytes need not be read again
  void take(const Record& record, Note& note);
  void note_new(std::uint64_t number, const Hash128& hash);
  void append();
  bool append_to(const Note& note);
  void append_if_due();
  static Result<Fd> open_for_more(const FilePath& place);

  const Hash128 identity_;
  std::vector<Note> places_;        // where this process may append; it appends to the first one
  std::vector<std::string> notes_;  // the files that were read, for people
  std::mutex mutex_;
  std::vector<Hash128> hashes_;  // of each file; zero: unknown
  const bool skips_corrupt_;
  std::map<std::uint64_t, Hash128> corrupt_hashes_;  // of files that could not be decoded
  std::vector<bool> corrupt_;                        // found by this process
  std::vector<Record> pending_;                      // not written yet
  std::chrono::steady_clock::time_point appended_;
};

}  // namespace rekindle::data
