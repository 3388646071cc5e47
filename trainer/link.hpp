// The interface through which the step loop uses the connection to its worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "exchange/exchange.hpp"
#include "protocol/messages.hpp"

namespace rekindle::trainer {

// The step loop's thread makes all calls, except where another thread is named.
class Link {
 public:
  virtual ~Link() = default;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  virtual const std::string& trainer() const = 0;
  virtual void send(const protocol::FromTrainer& message) = 0;

  // The next generation to enter; no value after Quit. Blocks.
  virtual std::optional<protocol::Start> wait() = 0;

  // Between enter() and leave(), every message that ends the generation aborts `exchange` and sets aborted().
  virtual void enter(const protocol::GenerationId& generation, exchange::Exchange& exchange) = 0;
  virtual void leave() = 0;
  virtual const std::atomic<bool>& aborted() const = 0;
  virtual std::uint32_t flags() = 0;  // protocol::Flag: what the coordinator requests from this generation
  virtual void checkpoint_postponed() = 0;
  virtual void checkpoint_begins() = 0;

  // The current phase of the step loop; each call counts as progress.
  virtual void set_phase(protocol::TrainerPhase phase, std::uint64_t step) = 0;
  virtual void progress() = 0;
  virtual void block_written() = 0;  // of a shard; from the thread that writes it
};

}  // namespace rekindle::trainer
