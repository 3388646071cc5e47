// Messages as JSON text, one format for sockets, transcripts and debugging: {"type":"parked","body":{...}} on
// the first line.
//
// The list of members is large in a large run. It follows after the first line, already encoded, and a
// registration contains each distinct list once.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "protocol/messages.hpp"
#include "protocol/passed_on.hpp"

namespace rekindle::protocol {

std::string encode(const FromTrainer& message);
std::string encode(const ToTrainer& message);
std::string encode(const ToSupervisor& message);
std::string encode(const ToCoordinator& message);
std::string encode(const Registration& message);

// The first line of an encoded message: all fields except the members.
std::string_view first_line(std::string_view text);

// The name of an encoded message ("parked"), found without reading the rest. Empty: the text is no message.
std::string_view name_of(std::string_view text);

// Unknown types and missing fields are errors, not exceptions.
template <class Message>
Result<Message> decode(std::string_view text);
extern template Result<FromTrainer> decode<FromTrainer>(std::string_view);
extern template Result<Remembered> decode<Remembered>(std::string_view);
extern template Result<ToTrainer> decode<ToTrainer>(std::string_view);
extern template Result<ToSupervisor> decode<ToSupervisor>(std::string_view);
extern template Result<ToCoordinator> decode<ToCoordinator>(std::string_view);
template <>
Result<Registration> decode<Registration>(std::string_view text);

}  // namespace rekindle::protocol
