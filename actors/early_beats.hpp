// The signs of life of a coordinator that is not up yet. The supervisor kills a coordinator that is silent
// for 2 minutes (the first one of an attempt: 10), and reading the records of a run of weeks may take longer.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/channel.hpp"
#include "base/log.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

class EarlyBeats {
 public:
  EarlyBeats(Channel& supervisor, std::uint64_t term, protocol::Time now)
      : supervisor_(supervisor), term_(term), sent_(now) {}

  // Sends a beat every few seconds. Called often, by work that makes progress. A suspended supervisor must
  // not block the coordinator: it misses some beats.
  void progress(protocol::Time now) {
    constexpr std::chrono::seconds kEvery{3};
    if (now - sent_ < kEvery || supervisor_.congested()) return;
    sent_ = now;
    const protocol::ToSupervisor beat = protocol::CoordinatorBeat{term_, protocol::Activity::kForming};
    if (const Status sent = supervisor_.send(protocol::encode(beat)); !sent) log_warning(sent.error().line());
  }

 private:
  Channel& supervisor_;
  const std::uint64_t term_;
  protocol::Time sent_;
};

}  // namespace rekindle::actors
