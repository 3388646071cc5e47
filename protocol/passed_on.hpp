// Messages on their way through a worker. A worker passes a trainer's messages on as the text that came, and
// looks at their names. It decodes only the messages from which it makes a registration or a decision:
//
// - `Remembered` and Start are what a new coordinator must learn of a trainer (TrainerState). A registration
//   is one message, which its receiver checks as a whole, so they are part of it as values.
// - Heartbeats are collected and sent together in a binary form. They are also how a worker knows whether a
//   trainer that was killed had made a step.
// - A Start is encoded for each trainer, because each has its own rank.
//
// Any other message is checked where it is used: the coordinator or the trainer drops a malformed one.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/result.hpp"
#include "protocol/trainer_messages.hpp"

namespace rekindle::protocol {

using Remembered = std::variant<TrainerReady, Paused, TrainerBeat, ShardBegun, ShardWritten, ShardFailed>;

// A trainer's message to the coordinator.
struct Report {
  std::string text;                      // an encoded FromTrainer
  std::optional<Remembered> remembered;  // its contents, if the worker needs them
};

// The coordinator's message to a trainer: the text of a ToTrainer, or a Start.
using Order = std::variant<std::string, Start>;

// An error only if the contents are needed and cannot be read.
Result<Report> read_report(std::string text);
Result<Order> read_order(std::string text);

// A report of the worker itself, or of a simulated trainer. A heartbeat is not passed on, so it has no text.
Report report_of(const FromTrainer& message);

// Steps and evaluations: they are recorded once, and must not be lost with a connection.
bool is_for_the_records(const Report& report);
bool is_quit(const Order& order);
std::string text_of(const Order& order);

}  // namespace rekindle::protocol
