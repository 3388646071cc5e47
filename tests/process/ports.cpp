#include "ports.hpp"

#include <arpa/inet.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.hpp"

namespace rekindle::process_test {
namespace {

namespace fs = std::filesystem;
constexpr const char* kListening = "0A";  // state of a socket in /proc/net/tcp

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(str("/proc/", pid, "/fd"), code)) {
    const std::string target = fs::read_symlink(entry.path(), code);
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::string dotted(const std::string& hex) {
  in_addr address{};
  address.s_addr = static_cast<in_addr_t>(std::stoul(hex, nullptr, 16));
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

}  // namespace

std::vector<ListeningPort> listening_ports(pid_t pid) {
  std::vector<ListeningPort> found;
  const auto inodes = sockets_of(pid);
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(str("/proc/", pid, "/net/", table));
    std::string line;
    std::getline(file, line);  // the header line
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      if (state != kListening || !inodes.contains(inode)) continue;
      const std::size_t colon = local.find(':');
      const std::string address = local.substr(0, colon);
      found.push_back({address.size() == 8 ? dotted(address) : "ipv6",
                       static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return found;
}

std::size_t open_descriptors(pid_t pid) {
  std::error_code code;
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(str("/proc/", pid, "/fd"), code)) ++count;
  return count;
}

}  // namespace rekindle::process_test
