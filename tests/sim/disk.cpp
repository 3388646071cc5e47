#include "disk.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "process.hpp"
#include "world.hpp"

namespace rekindle::sim {

std::string CheckpointId::name() const {
  return str("step-", step, ".t", generation.term, ".g", generation.number);
}

const TermHolder* Disk::newest_term(const std::string& here) const {
  for (auto it = terms_.rbegin(); it != terms_.rend(); ++it) {
    if (shows(it->claim, here)) return &*it;
  }
  return nullptr;
}

const TermHolder* Disk::term(std::uint64_t term) const {
  return term == 0 || term > terms_.size() ? nullptr : &terms_[term - 1];
}

bool Disk::claim(std::uint64_t term, const Process& holder) {
  if (term != terms_.size() + 1) return false;
  terms_.push_back({term, &holder, holder.world().attempt(), made_on(holder.host()), {}});
  return true;
}

void Disk::end_term(std::uint64_t term, const std::string& host) {
  if (!terms_.at(term - 1).end) terms_[term - 1].end = made_on(host);
}

const Disk::Place* Disk::place(const std::string& here) const {
  if (away()) return nullptr;
  for (auto it = places_.rbegin(); it != places_.rend(); ++it) {
    if (shows(it->made, here)) return &*it;
  }
  return nullptr;
}

StoredCheckpoint* Disk::find(const std::string& name) {
  for (auto& [id, checkpoint] : checkpoints_) {
    if (id.name() == name) return &checkpoint;
  }
  return nullptr;
}

CheckpointId Disk::id_of(const std::string& name) const {
  for (const auto& [id, checkpoint] : checkpoints_) {
    if (id.name() == name) return id;
  }
  return {};
}

std::vector<std::pair<CheckpointId, StoredCheckpoint*>> Disk::committed() {
  std::vector<std::pair<CheckpointId, StoredCheckpoint*>> all;
  for (auto it = checkpoints_.rbegin(); it != checkpoints_.rend(); ++it) {
    if (it->second.committed && !it->second.set_aside) all.emplace_back(it->first, &it->second);
  }
  return all;
}

std::vector<checkpoint::Listed> Disk::listed(const std::string& here) const {
  std::vector<checkpoint::Listed> all;
  for (auto it = checkpoints_.rbegin(); it != checkpoints_.rend(); ++it) {
    const auto& [id, stored] = *it;
    if (stored.set_aside) continue;
    const bool committed = stored.committed && shows_checkpoint(stored.manifest, here);
    const bool is_seen = committed || std::ranges::any_of(stored.shards, [&](const auto& shard) {
                           return shows_checkpoint(shard.second.made, here);
                         });
    if (is_seen) all.push_back({id.real(), committed});
  }
  return all;
}

std::vector<checkpoint::CheckpointId> Disk::committed(const std::string& here) const {
  std::vector<checkpoint::CheckpointId> all;
  for (const auto& [id, is_committed] : listed(here)) {
    if (is_committed) all.push_back(id);
  }
  return all;
}

}  // namespace rekindle::sim
