// The place of a file, and how far the path to it can be trusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace rekindle {

enum class Trust : std::uint8_t {
  kNamed,    // a person named this path: links are followed, and the file may belong to any user
  kOwn,      // below a root directory that only this user and root may change: links are refused
  kForeign,  // below a root directory of any user: for reading only, links are refused
};

// A path as a person gave it, or a path below a root directory. The functions of base/files.hpp open the
// second kind one directory after the other, each relative to the previous one, and check each directory
// (docs/security.md). There is no conversion to fs::path: a caller of path() must expect that the file is
// then opened without these checks.
class FilePath {
 public:
  FilePath() = default;
  FilePath(std::filesystem::path path) : below_(std::move(path)) {}
  FilePath(const std::string& path) : below_(path) {}
  FilePath(const char* path) : below_(path) {}
  // The root itself, or a path below it. A person names `root`. `inode`: the inode number that the root must
  // have, for Trust::kOwn; 0: any. The device may change when storage is mounted again.
  static FilePath below(std::filesystem::path root, Trust trust, std::filesystem::path path = {},
                        std::uint64_t inode = 0);

  // The complete path, for messages, for other programs and for paths that a person named.
  std::filesystem::path path() const { return is_root() ? root_ : root_ / below_; }
  std::string string() const { return path().string(); }
  std::filesystem::path filename() const { return path().filename(); }
  std::filesystem::path extension() const { return path().extension(); }
  FilePath parent_path() const;
  FilePath operator/(const std::filesystem::path& name) const;

  Trust trust() const { return trust_; }
  const std::filesystem::path& root() const { return root_; }
  std::uint64_t root_inode() const { return root_inode_; }
  const std::filesystem::path& below_root() const { return below_; }
  bool is_root() const { return trust_ != Trust::kNamed && below_.empty(); }
  bool empty() const { return root_.empty() && below_.empty(); }

 private:
  std::filesystem::path root_;   // empty if a person named the path
  std::filesystem::path below_;  // relative to root_, if there is one
  Trust trust_ = Trust::kNamed;
  std::uint64_t root_inode_ = 0;  // 0: unknown
};

}  // namespace rekindle
