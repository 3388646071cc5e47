// A link to no worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "trainer/link.hpp"

namespace rekindle::trainer {

class FakeLink final : public Link {
 public:
  const std::string& trainer() const override { return name_; }
  void send(const protocol::FromTrainer&) override {}
  std::optional<protocol::Start> wait() override { return std::nullopt; }
  void enter(const protocol::GenerationId&, exchange::Exchange&) override {}
  void leave() override {}
  const std::atomic<bool>& aborted() const override { return aborted_; }
  std::uint32_t flags() override { return flags_; }
  void checkpoint_postponed() override {}
  void checkpoint_begins() override {}
  void set_phase(protocol::TrainerPhase phase, std::uint64_t) override { phase_ = phase; }
  void progress() override { ++progress_; }
  void block_written() override {}

  std::string name_ = "a";
  std::atomic<bool> aborted_ = false;
  std::uint32_t flags_ = 0;
  int progress_ = 0;
  protocol::TrainerPhase phase_ = protocol::TrainerPhase::kComputing;
};

}  // namespace rekindle::trainer
