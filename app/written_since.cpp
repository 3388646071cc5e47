#include "app/written_since.hpp"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 2;            // MNIST/raw
constexpr std::size_t kNamed = 2;    // more would not help
constexpr std::size_t kMost = 5000;  // of an image folder this is not the way to find out

bool is_later(const timespec& one, const timespec& other) {
  return std::pair(one.tv_sec, one.tv_nsec) > std::pair(other.tv_sec, other.tv_nsec);
}

class Search {
 public:
  Search(const fs::path& data, const timespec& since) : data_(data), since_(since) {}

  void look(const fs::path& path, int depth) {
    const auto info = look_at(path);
    if (!info || !*info || ++looks_ > kMost) return;
    if (S_ISREG((*info)->st_mode)) {
      if (is_later((*info)->st_ctim, since_)) found_.push_back(name_of(path));
      return;
    }
    if (depth > kDepth || !S_ISDIR((*info)->st_mode)) return;
    for (const std::string& name : names_in(path).value_or(std::vector<std::string>()))
      if (!name.starts_with('.')) look(path / name, depth + 1);
  }

  std::string text() const {
    if (looks_ > kMost) return {};
    std::string text;
    for (std::size_t i = 0; i < found_.size() && i < kNamed; ++i) text += (i > 0 ? ", " : "") + found_[i];
    return found_.size() > kNamed ? str(text, " and ", found_.size() - kNamed, " more") : text;
  }

 private:
  std::string name_of(const fs::path& path) const {
    return path == data_ ? path.filename().string() : path.lexically_relative(data_).string();
  }

  const fs::path data_;
  const timespec since_;
  std::size_t looks_ = 0;
  std::vector<std::string> found_;
};

}  // namespace

std::string written_since(const fs::path& data, const timespec& since) {
  Search search(data, since);
  search.look(data, 0);
  return search.text();
}

}  // namespace rekindle::app
