#include "base/network.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>

#include "base/files.hpp"
#include "base/lists.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string to_text(const in_addr& address) {
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words = comma_separated(list);
  std::erase(words, "");
  return words;
}

std::string names_of(const std::vector<Interface>& there) {
  std::string text;
  for (const Interface& i : there) text += str(text.empty() ? "" : ", ", i.name, " (", i.address, ")");
  return text.empty() ? "none" : text;
}

const Interface* find(const std::vector<Interface>& there, const std::vector<std::string>& words,
                      bool exact) {
  for (const std::string& word : words) {
    for (const Interface& i : there) {
      if (i.name == word || i.address == word || (!exact && i.name.starts_with(word))) return &i;
    }
  }
  return nullptr;
}

const Interface* find_other_than(const std::vector<Interface>& there, const std::vector<std::string>& words) {
  for (const Interface& i : there) {
    const bool excluded = std::any_of(words.begin(), words.end(),
                                      [&](const std::string& word) { return i.name.starts_with(word); });
    if (!i.loopback && !excluded) return &i;
  }
  return nullptr;
}

}  // namespace

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_UP) == 0) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    found.push_back({i->ifa_name, to_text(address->sin_addr), (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

Result<Interface> choose_interface(const std::vector<Interface>& there, const std::string& wanted) {
  if (wanted.empty()) return Interface{"lo", std::string(kLoopback), true};
  const bool marked = wanted[0] == '=' || wanted[0] == '^';
  const std::vector<std::string> words = split(marked ? wanted.substr(1) : wanted);
  const Interface* chosen = nullptr;
  if (wanted[0] == '^') {
    chosen = find_other_than(there, words);
  } else {
    chosen = find(there, words, true);  // "eth1" must not match eth10 if there is an eth1
    if (chosen == nullptr && wanted[0] != '=') chosen = find(there, words, false);
  }
  if (chosen != nullptr) return *chosen;
  return fail(ExitCode::kConfig,
              str("this host has no network interface '", wanted, "' that is up and has an IPv4 address"),
              str("there is: ", names_of(there), "; see --interface"));
}

Result<std::string> choose_address(const std::vector<Interface>& there, const std::string& wanted) {
  REKINDLE_TRY(Interface chosen, choose_interface(there, wanted));
  return std::move(chosen.address);
}

Result<PortRange> parse_port_range(const std::string& text) {
  if (text.empty()) return PortRange{};
  const auto number = [](std::string_view word) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), port);
    return error == std::errc{} && end == word.data() + word.size() ? port : std::uint16_t{0};
  };
  const std::size_t dash = text.find('-');
  const std::string_view all = text;
  PortRange range;
  range.first = number(all.substr(0, dash));
  range.last = dash == std::string::npos ? range.first : number(all.substr(dash + 1));
  if (range.first == 0 || range.last < range.first)
    return fail(ExitCode::kUsage, str("--port-range ", text, " is not a range of ports"),
                "write for example 20000-20100");
  return range;
}

Result<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0)
    return fail(ExitCode::kConfig, str("cannot resolve ", host, ": ", ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  return to_text(reinterpret_cast<const sockaddr_in*>(list->ai_addr)->sin_addr);
}

Result<std::string> address_towards(const std::string& address) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{}, here{};
  there.sin_family = AF_INET;
  there.sin_port = htons(9);  // any port: connect() of a UDP socket sends nothing
  socklen_t size = sizeof here;
  if (!socket || ::inet_pton(AF_INET, address.c_str(), &there.sin_addr) != 1 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &size) != 0)
    return fail(ExitCode::kConfig, str("there is no route to ", address));
  return to_text(here.sin_addr);
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

std::string peer_address(int fd) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  const bool known = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  return known && peer.sin_family == AF_INET ? to_text(peer.sin_addr) : "an unknown address";
}

Fd connect_to(const std::string& address, std::uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{2, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    return Fd();
  return socket;
}

bool reachable(const std::string& address, std::uint16_t port) {
  return static_cast<bool>(connect_to(address, port));
}

}  // namespace rekindle
