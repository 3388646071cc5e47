#include "disk.hpp"

#include "base/text.hpp"

namespace rekindle::sim {

std::string CheckpointId::name() const {
  return str("step-", step, ".t", generation.term, ".g", generation.number);
}

std::uint64_t Disk::claim(const Process& holder) {
  const std::uint64_t term = terms_.empty() ? 1 : terms_.back().term + 1;
  terms_.push_back({term, &holder, false});
  return term;
}

void Disk::end_term(std::uint64_t term) {
  for (TermHolder& holder : terms_) {
    if (holder.term == term) holder.ended = true;
  }
}

const Disk::Place* Disk::place(const std::string& here) const {
  if (away()) return nullptr;
  for (auto it = places_.rbegin(); it != places_.rend(); ++it) {
    if (shows(it->written, it->host, here)) return &*it;
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

}  // namespace rekindle::sim
