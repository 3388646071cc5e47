#include "base/link_speed.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/text.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGigabit = 1000;  // megabits

// The first port that is up; of several they are alike.
std::uint64_t infiniband_megabits(const fs::path& device) {
  std::error_code none;
  std::uint64_t most = 0;
  for (const auto& card : fs::directory_iterator(device / "infiniband", none)) {
    for (const auto& port : fs::directory_iterator(card.path() / "ports", none)) {
      std::ifstream file(port.path() / "rate");
      double gigabits = 0;
      if (file >> gigabits && gigabits > 0)
        most = std::max(most, static_cast<std::uint64_t>(gigabits * kGigabit));
    }
  }
  return most;
}

std::string shown(std::uint64_t megabits) {
  return megabits % kGigabit == 0 ? str(megabits / kGigabit, " Gbit/s") : str(megabits, " Mbit/s");
}

}  // namespace

std::uint64_t megabits_of(const std::string& interface, const fs::path& sys) {
  const fs::path of = sys / "class/net" / interface;
  std::int64_t speed = 0;
  std::ifstream file(of / "speed");
  if (file >> speed && speed > 0) return static_cast<std::uint64_t>(speed);
  return infiniband_megabits(of / "device");
}

std::string slow_link(const std::vector<Interface>& there, const std::string& address, const fs::path& sys) {
  constexpr std::uint64_t kFaster = 4;
  const auto own = std::ranges::find(there, address, &Interface::address);
  if (own == there.end() || own->loopback) return "";
  const std::uint64_t speed = megabits_of(own->name, sys);
  const Interface* best = nullptr;
  std::uint64_t most = 0;
  for (const Interface& each : there) {
    const std::uint64_t its = each.loopback ? 0 : megabits_of(each.name, sys);
    if (its > most) {
      most = its;
      best = &each;
    }
  }
  if (speed == 0 || best == nullptr || most < kFaster * speed) return "";
  return str("gradients go over ", own->name, " (", shown(speed), "), as Slurm reaches the nodes; ",
             best->name, " (", shown(most), ") is up: if the nodes reach each other by it, --interface ",
             best->name);
}

}  // namespace rekindle
