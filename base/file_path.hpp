// Where a file is, and how far the path to it is to be trusted.
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
// second kind one directory after the other, each relative to the one before, and check each
// (docs/security.md). There is no conversion to fs::path: whoever asks for path() hands the file to something
// that does not check.
class FilePath {
 public:
  FilePath() = default;
  FilePath(std::filesystem::path path) : below_(std::move(path)) {}
  FilePath(const std::string& path) : below_(path) {}
  FilePath(const char* path) : below_(path) {}
  // The root itself, or what is below it. `root` is named by a person.
  static FilePath below(std::filesystem::path root, Trust trust, std::filesystem::path path = {});

  // The whole path, for messages, for other programs and for what a person named.
  std::filesystem::path path() const { return is_root() ? root_ : root_ / below_; }
  std::string string() const { return path().string(); }
  std::filesystem::path filename() const { return path().filename(); }
  std::filesystem::path extension() const { return path().extension(); }
  FilePath parent_path() const;
  FilePath operator/(const std::filesystem::path& name) const;

  Trust trust() const { return trust_; }
  const std::filesystem::path& root() const { return root_; }
  const std::filesystem::path& below_root() const { return below_; }
  bool is_root() const { return trust_ != Trust::kNamed && below_.empty(); }
  bool empty() const { return root_.empty() && below_.empty(); }

 private:
  std::filesystem::path root_;   // empty if a person named the path
  std::filesystem::path below_;  // relative to root_, if there is one
  Trust trust_ = Trust::kNamed;
};

}  // namespace rekindle
