#include "journal.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/files.hpp"
#include "base/random.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPageBytes = 4096;

enum class Outcome { kThere, kZeros, kGone };

// Draws for each operation or page whether it survives.
class Outcomes {
 public:
  explicit Outcomes(const Survival& survival)
      : rule_(survival.rule), rng_(stream_key(survival.seed, Draws::kOrder)), gone_of_8_(rng_.below(7) + 1) {}

  Outcome next() {
    if (rule_ != Survival::Rule::kRandom)
      return rule_ == Survival::Rule::kAll ? Outcome::kThere : Outcome::kGone;
    if (rng_.below(8) < gone_of_8_) return Outcome::kGone;
    return rng_.below(4) == 0 ? Outcome::kZeros : Outcome::kThere;
  }

 private:
  Survival::Rule rule_;
  Rng rng_;
  std::uint64_t gone_of_8_;  // between disks that lose nearly everything and disks that lose nearly nothing
};

}  // namespace

struct Journal::Disk {
  std::map<Inode, Names> names;
  std::map<Inode, std::vector<std::byte>> data;

  void apply(const Operation& operation, bool durable, Outcomes& outcomes) {
    if (operation.kind == Kind::kData) {
      apply_data(operation, durable, outcomes);
    } else if (operation.kind == Kind::kTruncation) {
      if (durable || outcomes.next() != Outcome::kGone) data[operation.inode].clear();
    } else if (operation.kind == Kind::kNames) {
      if (!durable && outcomes.next() == Outcome::kGone) return;
      for (const auto& [name, inode] : operation.names) {
        names[operation.inode].erase(name);
        if (inode) names[operation.inode].emplace(name, *inode);
      }
    }
  }

  void apply_data(const Operation& operation, bool durable, Outcomes& outcomes) {
    std::vector<std::byte>& file = data[operation.inode];
    for (std::size_t from = 0; from < operation.bytes.size();) {
      const std::size_t place = operation.offset + from;
      const std::size_t bytes = std::min(operation.bytes.size() - from, kPageBytes - place % kPageBytes);
      const Outcome outcome = durable ? Outcome::kThere : outcomes.next();
      if (outcome != Outcome::kGone) file.resize(std::max(file.size(), place + bytes));
      if (outcome == Outcome::kThere)
        std::copy_n(operation.bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                    file.begin() + static_cast<std::ptrdiff_t>(place));
      from += bytes;
    }
  }

  void write(const std::vector<bool>& is_directory, Inode directory, const fs::path& into) {
    fs::create_directories(into);
    for (const auto& [name, inode] : names[directory]) {
      if (is_directory[inode]) {
        write(is_directory, inode, into / name);
      } else {
        const std::vector<std::byte>& bytes = data[inode];
        std::ofstream(into / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      }
    }
  }
};

Journal::Journal(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const fs::path name = entry.path().lexically_relative(directory);
    create(name, entry.is_directory());
    if (!entry.is_directory()) write(*find(name), 0, *read_file(entry.path()));
  }
  for (Inode inode = 0; inode < is_directory_.size(); ++inode) sync(inode);
  initial_ = operations_.size();
}

std::optional<Journal::Inode> Journal::find(const fs::path& name) const {
  Inode inode = 0;
  for (const fs::path& part : name) {
    const auto directory = names_.find(inode);
    if (directory == names_.end()) return std::nullopt;
    const auto entry = directory->second.find(part.string());
    if (entry == directory->second.end()) return std::nullopt;
    inode = entry->second;
  }
  return inode;
}

std::pair<Journal::Inode, std::string> Journal::place_of(const fs::path& name) const {
  const auto directory = find(name.parent_path());
  if (!directory) std::abort();  // the kernel has just found the directory
  return {*directory, name.filename().string()};
}

void Journal::change_names(Inode directory, std::vector<std::pair<std::string, std::optional<Inode>>> names) {
  for (const auto& [name, inode] : names) {
    names_[directory].erase(name);
    if (inode) names_[directory].emplace(name, *inode);
  }
  operations_.push_back({Kind::kNames, directory, std::move(names), 0, {}});
}

void Journal::create(const fs::path& name, bool directory) {
  const auto [parent, own] = place_of(name);
  is_directory_.push_back(directory);
  change_names(parent, {{own, is_directory_.size() - 1}});
}

void Journal::remove(const fs::path& name) {
  const auto [parent, own] = place_of(name);
  change_names(parent, {{own, std::nullopt}});
}

void Journal::rename(const fs::path& from, const fs::path& to) {
  const auto [parent, old_name] = place_of(from);
  const auto [same_parent, new_name] = place_of(to);
  if (parent != same_parent) std::abort();  // would need two fsyncs; the program never does this
  change_names(parent, {{old_name, std::nullopt}, {new_name, find(from)}});
}

void Journal::link(const fs::path& from, const fs::path& to) {
  const auto [parent, own] = place_of(to);
  change_names(parent, {{own, find(from)}});
}

void Journal::write(Inode file, std::uint64_t offset, std::span<const std::byte> bytes) {
  operations_.push_back({Kind::kData, file, {}, offset, {bytes.begin(), bytes.end()}});
}

void Journal::truncate(Inode file) { operations_.push_back({Kind::kTruncation, file, {}, 0, {}}); }

void Journal::sync(Inode inode, bool failed) {
  operations_.push_back({failed ? Kind::kFailedSync : Kind::kSync, inode, {}, 0, {}});
}

std::vector<bool> Journal::durable(std::size_t operations) const {
  std::vector<bool> durable(operations);
  std::map<Inode, std::vector<std::size_t>> pending;
  for (std::size_t i = 0; i < operations; ++i) {
    const Operation& operation = operations_[i];
    std::vector<std::size_t>& waiting = pending[operation.inode];
    if (operation.kind == Kind::kSync) {
      for (const std::size_t each : waiting) durable[each] = true;
      waiting.clear();
    } else if (operation.kind != Kind::kFailedSync) {
      waiting.push_back(i);
    } else if (!is_directory_[operation.inode]) {
      waiting.clear();
    }
  }
  return durable;
}

void Journal::rebuild(std::size_t operations, const Survival& survival, const fs::path& into) const {
  operations += initial_;
  const std::vector<bool> durable = this->durable(operations);
  Outcomes outcomes(survival);
  Disk disk;
  for (std::size_t i = 0; i < operations; ++i) disk.apply(operations_[i], durable[i], outcomes);
  fs::remove_all(into);
  disk.write(is_directory_, 0, into);
}

Journal Journal::without_syncs(bool of_directories) const {
  Journal other = *this;
  for (Operation& operation : other.operations_) {
    if (operation.kind == Kind::kSync && is_directory_[operation.inode] == of_directories)
      operation.kind = Kind::kFailedSync;
  }
  return other;
}

}  // namespace rekindle::checkpoint
