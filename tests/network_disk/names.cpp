#include "network_disk.hpp"

namespace rekindle::network_disk {

void Names::note(int node, const std::string& path, State state) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  std::erase_if(changes_, [&](const auto& each) { return now - each.second.at > late_; });
  changes_[path] = {now, state, 1UL << static_cast<unsigned>(node)};
}

void Names::told(int node, const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = changes_.find(path);
  if (found != changes_.end()) found->second.informed |= 1UL << static_cast<unsigned>(node);
}

bool Names::is_news(const Change& change, int node) const {
  const bool informed = (change.informed >> static_cast<unsigned>(node) & 1UL) != 0;
  return !informed && Clock::now() - change.at <= late_;
}

std::optional<Names::State> Names::wrong_idea(int node, const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = changes_.find(path);
  if (found == changes_.end() || !is_news(found->second, node)) return std::nullopt;
  return found->second.state;
}

std::vector<std::string> Names::ghosts(int node, const std::filesystem::path& directory) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [path, change] : changes_) {
    const std::filesystem::path each(path);
    if (change.state == State::kRemoved && each.parent_path() == directory && is_news(change, node))
      names.push_back(each.filename().string());
  }
  return names;
}

}  // namespace rekindle::network_disk
