#include "protocol/passed_on.hpp"

#include <utility>

#include "protocol/message_names.hpp"
#include "protocol/wire.hpp"

namespace rekindle::protocol {

Result<Report> read_report(std::string text) {
  Report report{std::move(text), std::nullopt};
  if (is_name_in<Remembered>(name_of(report.text))) {
    REKINDLE_TRY(report.remembered, decode<Remembered>(report.text));
  }
  return report;
}

Result<Order> read_order(std::string text) {
  if (name_of(text) != kTypeName<Start>) return Order(std::move(text));
  REKINDLE_TRY(ToTrainer message, decode<ToTrainer>(text));
  return Order(std::get<Start>(std::move(message)));
}

Report report_of(const FromTrainer& message) {
  const bool beat = std::holds_alternative<TrainerBeat>(message);
  Report report{beat ? "" : encode(message), std::nullopt};
  std::visit(
      [&report](const auto& body) {
        if constexpr (requires { Remembered(body); }) report.remembered = body;
      },
      message);
  return report;
}

bool is_for_the_records(const Report& report) {
  return is_name_in<std::variant<StepDone, StepsDone, Evaluated>>(name_of(report.text));
}

bool is_quit(const Order& order) {
  const auto* const text = std::get_if<std::string>(&order);
  return text != nullptr && name_of(*text) == kTypeName<Quit>;
}

std::string text_of(const Order& order) {
  if (const auto* const text = std::get_if<std::string>(&order)) return *text;
  return encode(ToTrainer(std::get<Start>(order)));
}

}  // namespace rekindle::protocol
