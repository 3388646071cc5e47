// What a coordinator has to tell trainers, by worker: one order for all trainers of a worker that are told
// the same, and each message encoded once. With 512 workers of 8 trainers a loss is 511 small orders instead
// of 4088, and a generation's list of members, 200 KB, goes to each node once.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/interfaces.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

class Outbox {
 public:
  void put(const protocol::SendTrainer& effect) {
    const auto* start = std::get_if<protocol::Start>(&effect.message);
    std::vector<Batch>& batches = waiting_[effect.worker];
    const Kind kind = kind_of(effect.message);
    // Only what was put last is added to: a trainer is told things in the order that they were decided.
    if (batches.empty() || batches.back().kind != kind) batches.push_back({kind, {}});
    batches.back().to.push_back({effect.trainer, start != nullptr ? start->rank : -1});
    messages_.try_emplace(kind, effect.message);
  }

  // Hands over all that was put: deliver(worker, recipients, message as text). `finish` has the last word on
  // each message before it is encoded.
  template <class Finish, class Deliver>
  void flush(const Finish& finish, const Deliver& deliver) {
    std::map<Kind, std::string> texts;
    for (auto& [kind, message] : messages_) {
      finish(message);
      texts.emplace(kind, encode(message));
    }
    for (auto& [worker, batches] : waiting_) {
      for (Batch& batch : batches) deliver(worker, std::move(batch.to), texts.at(batch.kind));
    }
    waiting_.clear();
    messages_.clear();
  }

 private:
  // Messages of one kind that are decided together differ in nothing but the rank: a generation is formed
  // once.
  using Kind = std::pair<std::size_t, protocol::GenerationId>;
  struct Batch {
    Kind kind;
    std::vector<Recipient> to;
  };

  static Kind kind_of(const protocol::ToTrainer& message) {
    const auto generation = [](const auto& body) -> protocol::GenerationId {
      if constexpr (requires { body.generation; })
        return body.generation;
      else
        return {};
    };
    return {message.index(), std::visit(generation, message)};
  }

  std::map<std::string, std::vector<Batch>> waiting_;
  std::map<Kind, protocol::ToTrainer> messages_;
};

}  // namespace rekindle::actors
