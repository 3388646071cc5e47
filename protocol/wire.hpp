// Messages as JSON text: one form for sockets, for transcripts and for people who debug.
//   {"type": "parked", "body": {...}}
// A list of members is large where trainers are many. It follows behind the first line, as the text that it
// keeps, and a registration has each distinct list once.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

std::string encode(const FromTrainer& message);
std::string encode(const ToTrainer& message);
std::string encode(const ToSupervisor& message);
std::string encode(const ToCoordinator& message);
std::string encode(const Registration& message);

// The first line of an encoded message: all but members.
std::string_view first_line(std::string_view text);

// Unknown types and missing fields are errors, never exceptions.
template <class Message>
Result<Message> decode(std::string_view text);
extern template Result<FromTrainer> decode<FromTrainer>(std::string_view);
extern template Result<ToTrainer> decode<ToTrainer>(std::string_view);
extern template Result<ToSupervisor> decode<ToSupervisor>(std::string_view);
extern template Result<ToCoordinator> decode<ToCoordinator>(std::string_view);
template <>
Result<Registration> decode<Registration>(std::string_view text);

}  // namespace rekindle::protocol
