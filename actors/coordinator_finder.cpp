#include "actors/coordinator_finder.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "actors/tls_keys.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/text.hpp"

namespace rekindle::actors {

namespace {
constexpr auto kSeekPeriod = std::chrono::milliseconds(50);
constexpr std::chrono::seconds kSilent{10};
constexpr int kPeriodsWhenConnected = 40;  // a newer term may exist while the old coordinator still answers
}  // namespace

CoordinatorFinder::CoordinatorFinder(caf::actor_system& system, run::Layout layout, Listener listener)
    : system_(system), layout_(std::move(layout)), listener_(std::move(listener)) {}

void CoordinatorFinder::start() {
  std::thread([this] { look(); }).detach();  // ends with the process
}

void CoordinatorFinder::look() {
  for (int period = 0;; ++period) {
    std::this_thread::sleep_for(kSeekPeriod);
    if (connected_ && period % kPeriodsWhenConnected != 0) continue;
    const auto place = run::read_place(layout_);
    if (!place) continue;
    listener_.seen(place->term);
    if (wanted_ == place->term) try_connect(*place);
  }
}

void CoordinatorFinder::try_connect(const run::CoordinatorPlace& place) {
  wanted_ = 0;
  // CAF's own connect has no limit: a host that is gone would hold it up for minutes.
  if (!reachable(place.host, place.port)) {
    note_silence(place);
    return listener_.failed(place.term);
  }
  unanswered_ = {};
  // Each attempt has its own key pair. Without a pair, CAF ends the process.
  if (const Status keys = load_keys(layout_); !keys) {
    if (!std::exchange(keys_warned_, true)) log_warning(keys.error().line());
    return listener_.failed(place.term);
  }
  auto handle = caf::openssl::remote_actor<CoordinatorActor>(system_, place.host, place.port);
  if (handle) return listener_.connected(place.term, *handle);
  log_warning(str("cannot connect to the coordinator of term ", place.term, ": ", place.host, ":", place.port,
                  ": ", caf::to_string(handle.error())));
  listener_.failed(place.term);
}

// One line for each silence, and none for a coordinator that has died and has a successor within seconds.
void CoordinatorFinder::note_silence(const run::CoordinatorPlace& place) {
  const auto now = boot_time();
  if (unanswered_.term != place.term) unanswered_ = {place.term, now, false};
  if (now - unanswered_.since < kSilent || std::exchange(unanswered_.warned, true)) return;
  log_warning(str("cannot connect to the coordinator of term ", place.term, ": ", place.host, ":", place.port,
                  " has not answered for ", kSilent.count(),
                  " s (if the run lives: look at the firewall, and at --interface of the run)"));
}

}  // namespace rekindle::actors
