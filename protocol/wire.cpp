#include "protocol/wire.hpp"

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

template <class T>
constexpr std::string_view kTypeName = "";
template <>
constexpr std::string_view kTypeName<TrainerReady> = "trainer-ready";
template <>
constexpr std::string_view kTypeName<StepDone> = "step-done";
template <>
constexpr std::string_view kTypeName<StepsDone> = "steps-done";
template <>
constexpr std::string_view kTypeName<Evaluated> = "evaluated";
template <>
constexpr std::string_view kTypeName<ShardWritten> = "shard-written";
template <>
constexpr std::string_view kTypeName<ShardFailed> = "shard-failed";
template <>
constexpr std::string_view kTypeName<Parked> = "parked";
template <>
constexpr std::string_view kTypeName<TrainerBeat> = "trainer-beat";
template <>
constexpr std::string_view kTypeName<TrainerFailed> = "trainer-failed";
template <>
constexpr std::string_view kTypeName<TrainerExited> = "trainer-exited";
template <>
constexpr std::string_view kTypeName<Start> = "start";
template <>
constexpr std::string_view kTypeName<Stop> = "stop";
template <>
constexpr std::string_view kTypeName<Cut> = "cut";
template <>
constexpr std::string_view kTypeName<Abort> = "abort";
template <>
constexpr std::string_view kTypeName<Quit> = "quit";
template <>
constexpr std::string_view kTypeName<CoordinatorUp> = "coordinator-up";
template <>
constexpr std::string_view kTypeName<CoordinatorBeat> = "coordinator-beat";
template <>
constexpr std::string_view kTypeName<Say> = "say";
template <>
constexpr std::string_view kTypeName<Progress> = "progress";
template <>
constexpr std::string_view kTypeName<Ended> = "ended";
template <>
constexpr std::string_view kTypeName<StopRun> = "stop-run";
template <>
constexpr std::string_view kTypeName<WorkerDied> = "worker-died";

// Bytes that are not UTF-8 (a path, say) are replaced rather than thrown at.
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error unreadable(const nlohmann::json::exception& error) {
  return {ExitCode::kGaveUp, str("a message could not be read: ", error.what()),
          "are all processes of one build?"};
}

template <class Variant>
std::string encode_any(const Variant& message) {
  return std::visit(
      [](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        static_assert(!kTypeName<T>.empty());
        return dump({{"type", kTypeName<T>}, {"body", body}});
      },
      message);
}

template <class Variant, std::size_t I = 0>
Result<Variant> decode_as(std::string_view type, const nlohmann::json& body) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return fail(str("unknown message '", type, "'"), "are all processes of one build?");
  } else {
    using T = std::variant_alternative_t<I, Variant>;
    if (type == kTypeName<T>) return Variant(body.get<T>());
    return decode_as<Variant, I + 1>(type, body);
  }
}

}  // namespace

std::string encode(const FromTrainer& message) { return encode_any(message); }
std::string encode(const ToTrainer& message) { return encode_any(message); }
std::string encode(const ToSupervisor& message) { return encode_any(message); }
std::string encode(const ToCoordinator& message) { return encode_any(message); }
std::string encode(const Registration& message) { return dump(message); }

template <class Message>
Result<Message> decode(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return decode_as<Message>(json.at("type").get<std::string>(), json.at("body"));
  } catch (const nlohmann::json::exception& error) {
    return forward_error(unreadable(error));
  }
}
template <>
Result<Registration> decode<Registration>(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<Registration>();
  } catch (const nlohmann::json::exception& error) {
    return forward_error(unreadable(error));
  }
}
template Result<FromTrainer> decode<FromTrainer>(std::string_view);
template Result<ToTrainer> decode<ToTrainer>(std::string_view);
template Result<ToSupervisor> decode<ToSupervisor>(std::string_view);
template Result<ToCoordinator> decode<ToCoordinator>(std::string_view);

std::string to_text(TrainerPhase phase) { return nlohmann::json(phase).get<std::string>(); }
std::string to_text(const GenerationId& id) { return str("t", id.term, ".g", id.number); }

}  // namespace rekindle::protocol
