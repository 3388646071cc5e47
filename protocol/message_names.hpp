// The names of messages in their JSON form (protocol/wire.hpp).
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include "protocol/messages.hpp"

namespace rekindle::protocol {

template <class T>
inline constexpr std::string_view kTypeName = "";
template <>
inline constexpr std::string_view kTypeName<TrainerReady> = "trainer-ready";
template <>
inline constexpr std::string_view kTypeName<StepDone> = "step-done";
template <>
inline constexpr std::string_view kTypeName<StepsDone> = "steps-done";
template <>
inline constexpr std::string_view kTypeName<Evaluated> = "evaluated";
template <>
inline constexpr std::string_view kTypeName<ShardBegun> = "shard-begun";
template <>
inline constexpr std::string_view kTypeName<SampleSkipped> = "sample-skipped";
template <>
inline constexpr std::string_view kTypeName<ShardWritten> = "shard-written";
template <>
inline constexpr std::string_view kTypeName<ShardFailed> = "shard-failed";
template <>
inline constexpr std::string_view kTypeName<Paused> = "parked";
template <>
inline constexpr std::string_view kTypeName<TrainerBeat> = "trainer-beat";
template <>
inline constexpr std::string_view kTypeName<TrainerFailed> = "trainer-failed";
template <>
inline constexpr std::string_view kTypeName<TrainerExited> = "trainer-exited";
template <>
inline constexpr std::string_view kTypeName<Start> = "start";
template <>
inline constexpr std::string_view kTypeName<Stop> = "stop";
template <>
inline constexpr std::string_view kTypeName<PauseForJoin> = "cut";
template <>
inline constexpr std::string_view kTypeName<Save> = "save";
template <>
inline constexpr std::string_view kTypeName<Abort> = "abort";
template <>
inline constexpr std::string_view kTypeName<Quit> = "quit";
template <>
inline constexpr std::string_view kTypeName<CoordinatorUp> = "coordinator-up";
template <>
inline constexpr std::string_view kTypeName<CoordinatorBeat> = "coordinator-beat";
template <>
inline constexpr std::string_view kTypeName<Say> = "say";
template <>
inline constexpr std::string_view kTypeName<Progress> = "progress";
template <>
inline constexpr std::string_view kTypeName<Ended> = "ended";
template <>
inline constexpr std::string_view kTypeName<StopRun> = "stop-run";
template <>
inline constexpr std::string_view kTypeName<WorkerDied> = "worker-died";

// A message begins with this text, then its name.
inline constexpr std::string_view kNamePrefix = R"({"type":")";

// Whether a message of this name is an alternative of the variant.
template <class Variant, std::size_t I = 0>
constexpr bool is_name_in(std::string_view name) {
  if constexpr (I == std::variant_size_v<Variant>)
    return false;
  else
    return name == kTypeName<std::variant_alternative_t<I, Variant>> || is_name_in<Variant, I + 1>(name);
}

}  // namespace rekindle::protocol
