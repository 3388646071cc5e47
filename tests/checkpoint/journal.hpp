// What a program did to the files below one directory, in order, and which disks a loss of power may leave of
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rekindle::checkpoint {

// What becomes of the operations that no fsync made durable. POSIX promises nothing about them, not even that
// earlier ones survive if later ones do.
struct Survival {
  enum class Rule {
    kAll,      // the process died, the machine did not
    kNothing,  // the least that POSIX promises
    kRandom    // any subset; of data, any pages, and the lost ones may read as zeros
  };
  Rule rule = Rule::kAll;
  std::uint64_t seed = 0;
};

// Names are relative to the directory; the empty name is the directory itself.
class Journal {
 public:
  using Inode = std::size_t;

  // What is there at the beginning is durable.
  explicit Journal(const std::filesystem::path& directory);

  std::optional<Inode> find(const std::filesystem::path& name) const;
  void create(const std::filesystem::path& name, bool directory);
  void remove(const std::filesystem::path& name);
  void rename(const std::filesystem::path& from, const std::filesystem::path& to);  // in one directory
  void write(Inode file, std::uint64_t offset, std::span<const std::byte> bytes);
  void truncate(Inode file);  // to nothing
  // Makes a file's bytes, or a directory's names, durable. One that failed leaves names for the next to make
  // durable, but no bytes: Linux takes the pages for clean then (Rebello et al., ATC 2020).
  void sync(Inode inode, bool failed = false);

  std::size_t size() const { return operations_.size() - initial_; }
  // The disk after the first `operations`, written below `into`, which is emptied first.
  void rebuild(std::size_t operations, const Survival& survival, const std::filesystem::path& into) const;
  // The same operations, but no fsync of a file or of a directory has done anything: a planted bug.
  Journal without_syncs(bool of_directories) const;

 private:
  enum class Kind { kNames, kData, kTruncation, kSync, kFailedSync };
  using Names = std::map<std::string, Inode>;
  struct Operation {
    Kind kind;
    Inode inode;
    std::vector<std::pair<std::string, std::optional<Inode>>> names;  // new meanings; none: removed
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };
  struct Disk;

  std::pair<Inode, std::string> place_of(const std::filesystem::path& name) const;
  void change_names(Inode directory, std::vector<std::pair<std::string, std::optional<Inode>>> names);
  std::vector<bool> durable(std::size_t operations) const;

  std::vector<Operation> operations_;
  std::size_t initial_ = 0;               // of them made what was there at the beginning
  std::vector<bool> is_directory_{true};  // by inode; 0 is the directory itself
  std::map<Inode, Names> names_;          // as the running program sees them
};

}  // namespace rekindle::checkpoint
