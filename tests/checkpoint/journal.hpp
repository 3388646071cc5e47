// The operations of a program on the files below one directory, in order, and the disks that a power loss may
// leave.
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

// Which of the operations without an fsync survive. POSIX promises nothing about them, not even that earlier
// operations survive if later ones do.
struct Survival {
  enum class Rule {
    kAll,      // the process died, but the machine did not
    kNothing,  // the minimum that POSIX promises
    kRandom    // any subset of the operations and of the data's pages; lost pages may read as zeros
  };
  Rule rule = Rule::kAll;
  std::uint64_t seed = 0;
};

// Names are relative to the directory; the empty name is the directory itself.
class Journal {
 public:
  using Inode = std::size_t;

  // The initial content is durable.
  explicit Journal(const std::filesystem::path& directory);

  std::optional<Inode> find(const std::filesystem::path& name) const;
  void create(const std::filesystem::path& name, bool directory);
  void remove(const std::filesystem::path& name);
  void rename(const std::filesystem::path& from, const std::filesystem::path& to);  // in one directory
  void link(const std::filesystem::path& from, const std::filesystem::path& to);
  void write(Inode file, std::uint64_t offset, std::span<const std::byte> bytes);
  void truncate(Inode file);  // to nothing
  // Makes a file's bytes, or a directory's names, durable. After a failed sync, the next sync makes the names
  // durable, but not the bytes: Linux marks the pages as clean (Rebello et al., ATC 2020).
  void sync(Inode inode, bool failed = false);

  std::size_t size() const { return operations_.size() - initial_; }
  // Empties `into`, and writes the disk after the first `operations` below it.
  void rebuild(std::size_t operations, const Survival& survival, const std::filesystem::path& into) const;
  // The same operations, but no fsync of a file (or of a directory) has an effect: a planted bug.
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
  std::size_t initial_ = 0;               // number of operations that made the initial content
  std::vector<bool> is_directory_{true};  // by inode; 0 is the directory itself
  std::map<Inode, Names> names_;          // the running program's view
};

}  // namespace rekindle::checkpoint
