// A directory as several nodes see it through network storage, from the worst that NFS, Lustre and their like
// are known for:
//   - a name that one node made, the others see late; a name that one node removed, the others still list,
//     and get ESTALE when they use it;
//   - what a write could not store is reported by the next fsync or close of the file, once;
//   - flock and fcntl locks are refused, as are O_DIRECT and fallocate;
//   - every call takes a while.
// Creating, linking and renaming are atomic among the nodes, as they are there.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rekindle::network_disk {

// What the nodes have done to names lately.
class Names {
 public:
  enum class State { kUnknown, kRemoved };

  explicit Names(std::chrono::milliseconds late) : late_(late) {}
  void made(int node, const std::string& path) { note(node, path, State::kUnknown); }
  void removed(int node, const std::string& path) { note(node, path, State::kRemoved); }
  // The server has just told the node about it.
  void told(int node, const std::string& path);
  // How the node's idea of a name differs from the truth.
  std::optional<State> wrong_idea(int node, const std::string& path);
  // Names in the directory that are gone, and that the node still lists.
  std::vector<std::string> ghosts(int node, const std::filesystem::path& directory);

 private:
  using Clock = std::chrono::steady_clock;
  struct Change {
    Clock::time_point at;
    State state;
    unsigned long informed;  // a bit for each node
  };
  void note(int node, const std::string& path, State state);
  bool is_news(const Change& change, int node) const;

  const std::chrono::milliseconds late_;
  std::mutex mutex_;
  std::map<std::string, Change> changes_;
};

struct Habits {
  std::chrono::microseconds slow;  // that every call takes
  bool tells_at_close;             // and not at fsync what a write could not store, as AFS does
  bool keeps_unchanged;            // in memory, while size and time are the same, as NFS does
};

// One node's mount of the directory `backing`; served by threads of this process until it is destroyed.
class Mount {
 public:
  Mount(int node, const std::filesystem::path& backing, const std::filesystem::path& where, Names& names,
        const Habits& habits);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  bool mounted() const;

 private:
  struct Serving;
  std::unique_ptr<Serving> serving_;
};

}  // namespace rekindle::network_disk
