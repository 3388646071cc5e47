// The coordinator's pending messages to trainers, by worker, and lines of its log. Trainers of one worker
// share one order if their messages are equal, and each message is encoded once. With 512 workers of 8
// trainers, a loss takes 511 small orders instead of 4088, and a generation's member list, 200 KB, goes to
// each node once.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/interfaces.hpp"
#include "base/log.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

class Outbox {
 public:
  void put(const protocol::SendTrainer& effect) {
    const auto* start = std::get_if<protocol::Start>(&effect.message);
    std::vector<Batch>& batches = pending_[effect.worker];
    const Kind kind = kind_of(effect.message);
    // Only the last batch may grow, so that a trainer receives messages in the order in which they were
    // decided.
    if (batches.empty() || batches.back().kind != kind) batches.push_back({kind, {}});
    batches.back().to.push_back({effect.trainer, start != nullptr ? start->rank : -1});
    messages_.try_emplace(kind, effect.message);
  }

  // A line for the log. Lines are written after the messages, because the log may be on storage that hangs.
  void put(LogLevel level, const std::string& line) { lines_.emplace_back(level, line); }
  void write_lines() {
    for (const auto& [level, line] : std::exchange(lines_, {})) log(level, line);
  }

  // Delivers all pending messages: deliver(worker, recipients, message as text). `finish` may change each
  // message before it is encoded.
  template <class Finish, class Deliver>
  void flush(const Finish& finish, const Deliver& deliver) {
    std::map<Kind, std::string> texts;
    for (auto& [kind, message] : messages_) {
      finish(message);
      texts.emplace(kind, encode(message));
    }
    for (auto& [worker, batches] : pending_) {
      for (Batch& batch : batches) deliver(worker, std::move(batch.to), texts.at(batch.kind));
    }
    pending_.clear();
    messages_.clear();
  }

 private:
  // Messages of one kind that are decided together are equal except for the rank, because a generation is
  // formed once.
  using Kind = std::pair<std::size_t, protocol::GenerationId>;
  struct Batch {
    Kind kind;
    std::vector<Recipient> to;
  };

  static Kind kind_of(const protocol::ToTrainer& message) {
    const auto generation = []<class Body>(const Body& body) -> protocol::GenerationId {
      static_assert(std::is_same_v<Body, protocol::Start> || sizeof(Body) <= sizeof(protocol::GenerationId),
                    "a message that differs between the trainers of a generation needs a kind of its own");
      if constexpr (requires { body.generation; })
        return body.generation;
      else
        return {};
    };
    return {message.index(), std::visit(generation, message)};
  }

  std::map<std::string, std::vector<Batch>> pending_;
  std::map<Kind, protocol::ToTrainer> messages_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

}  // namespace rekindle::actors
