// page.json: where the page of a run is served.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/holder.hpp"

namespace rekindle::run {

struct PagePlace {
  Holder server;        // its host, boot, pid and the namespace of the pid
  std::string address;  // numeric, on which the server listens
  std::uint64_t port = 0;
};

// The content of page.json while this process serves the page there.
std::string own_page_place(const std::string& address, std::uint16_t port);
// `source`: the file's name for messages.
Result<PagePlace> read_page_place(std::string_view text, const std::string& source);

// Whether the server is gone for certain. In another container of this host, it may be alive but invisible.
bool server_gone(const PagePlace& place);

}  // namespace rekindle::run
