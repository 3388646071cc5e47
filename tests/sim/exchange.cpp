#include "exchange.hpp"

#include <algorithm>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "trainer.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using exchange::LeafRange;
using exchange::StepHeader;

void Meeting::changed() {
  for (const Seat& seat : seats) {
    if (seat.trainer != nullptr) seat.trainer->look_again();
  }
}

exchange::Endpoint SimHub::endpoint() const {
  exchange::Endpoint endpoint;
  endpoint.host = trainer_.host();
  endpoint.nonce = trainer_.name();
  if (trainer_.world().plan().on_devices) endpoint.nccl = str("22809 ", trainer_.name());
  return endpoint;
}

std::unique_ptr<exchange::Exchange> SimHub::make(const exchange::Plan& plan) {
  return std::make_unique<SimExchange>(trainer_, plan);
}

SimExchange::SimExchange(TrainerProcess& trainer, const exchange::Plan& plan)
    : trainer_(trainer),
      plan_(plan),
      meeting_(trainer.world().meeting({plan.term, plan.generation}, plan.members.size())) {}

SimExchange::~SimExchange() {
  seat().left = seat().gone_on = true;
  meeting_.changed();
}

void SimExchange::abort() noexcept {
  seat().gone_on = true;
  trainer_.look_again();
}

int SimExchange::waiting_for() const noexcept { return trainer_.waits_for(); }

Status SimExchange::failed(int peer) {
  broken_ = true;
  peer_ = peer;
  return exchange::fail_rank(peer, "it left the generation");
}

// The error of NCCL names no peer. While it connects, it does not even say that it waits.
Status SimExchange::nccl_works(bool connects) {
  const bool used = ranks() > 1 && std::ranges::none_of(plan_.members, [](const exchange::Endpoint& member) {
                      return member.nccl.empty();
                    });
  const std::optional<NcclFails>& fails = trainer_.world().plan().nccl_fails;
  const Ms now = trainer_.world().engine().now();
  if (!used || !fails || now < fails->from || now >= fails->until || (!fails->everywhere && plan_.rank > 0))
    return {};
  if (fails->hangs) {
    const auto until = fails->until;
    Engine& engine = trainer_.world().engine();
    engine.after(until - now, [&world = trainer_.world()] { world.meetings_look_again(); });
    constexpr int kNoRank = -3;
    const int by = connects ? kNoRank : plan_.rank;
    if (trainer_.until([&engine, until, by] { return engine.now() < until ? by : -1; }) ==
        TrainerProcess::Woken::kReady)
      return {};
    return forward_error(exchange::aborted_error());
  }
  broken_ = true;
  peer_ = -1;
  return exchange::fail_rank(-1, "NCCL: error 2");
}

int SimExchange::missing(const There& there) {
  const DataLinks& links = trainer_.world().links();
  for (std::size_t rank = 0; rank < meeting_.seats.size(); ++rank) {
    if (static_cast<int>(rank) == plan_.rank) continue;
    const Seat& seat = meeting_.seats[rank];
    const bool came = seat.trainer != nullptr;
    const std::string& mine = trainer_.worker().name();
    const std::string other = came ? seat.trainer->worker().name() : "";
    if (came && links.blocked(mine, other)) return static_cast<int>(rank);
    const bool gone = came && seat.left && trainer_.world().plan().peers_see_deaths;
    const bool broken = came && links.broken(mine, other);
    if (there(seat) && !broken) continue;
    if (gone || broken) {
      peer_ = static_cast<int>(rank);
      return -2;
    }
    return static_cast<int>(rank);
  }
  return -1;
}

Status SimExchange::wait_for_all(const There& there) {
  if (broken_) return failed(peer_);
  switch (trainer_.until([this, &there] { return missing(there); })) {
    case TrainerProcess::Woken::kReady:
      return {};
    case TrainerProcess::Woken::kAborted:
      return forward_error(exchange::aborted_error());
    case TrainerProcess::Woken::kBroken:
      return failed(peer_);
  }
  return {};
}

Status SimExchange::pass(std::int64_t ms) {
  if (trainer_.sleep(ms) == TrainerProcess::Woken::kReady) return {};
  return forward_error(exchange::aborted_error());
}

Status SimExchange::connect() {
  REKINDLE_CHECK(pass(trainer_.world().engine().between(1, 10)));
  seat().trainer = &trainer_;
  meeting_.changed();
  REKINDLE_CHECK(wait_for_all([](const Seat& seat) { return seat.trainer != nullptr; }));
  trainer_.hub().claim_slots();
  seat().writer = trainer_.hub().writers();
  return nccl_works(true);
}

bool SimExchange::on_devices() const { return trainer_.world().plan().on_devices; }

bool SimExchange::sums_unchanged() const {
  if (on_devices()) return true;
  return std::ranges::all_of(meeting_.seats, [](const Seat& seat) {
    return seat.trainer == nullptr || seat.trainer->hub().writers() <= seat.writer;
  });
}

// Posts the data of this rank, and waits for the data of all others.
Result<std::vector<StepHeader>> SimExchange::meet(Posted mine) {
  const std::size_t n = seat().posted.size();
  const char operation = mine.operation;
  seat().posted.push_back(std::move(mine));
  meeting_.changed();
  REKINDLE_CHECK(wait_for_all([n](const Seat& seat) { return seat.posted.size() > n; }));
  std::vector<StepHeader> headers;
  for (std::size_t rank = 0; rank < meeting_.seats.size(); ++rank) {
    const Posted& posted = meeting_.seats[rank].posted[n];
    if (posted.operation != operation) return forward_error(failed(static_cast<int>(rank)).error());
    headers.push_back(posted.header);
  }
  return headers;
}

std::vector<LeafRange> SimExchange::subtrees() const {
  std::vector<LeafRange> all;
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto trees = exchange::subtrees_of(exchange::leaves_of(plan_.leaves, ranks(), rank));
    all.insert(all.end(), trees.begin(), trees.end());
  }
  return all;
}

// Sums the own shard of all partial sums, reading peers' memory while time passes. The sums go to slot 0, or
// on devices to memory of their own.
Status SimExchange::sum_own_shard() {
  const exchange::Shard shard = exchange::shard_of(kFloats, ranks(), plan_.rank);
  std::vector<Gradient> read;
  for (int rank = 0; rank < ranks(); ++rank) {
    REKINDLE_CHECK(pass(trainer_.world().engine().between(0, trainer_.world().plan().exchange_ms)));
    TrainerProcess& peer = *meeting_.seats[static_cast<std::size_t>(rank)].trainer;
    const auto trees = exchange::subtrees_of(exchange::leaves_of(plan_.leaves, ranks(), rank));
    for (int i = 0; i < static_cast<int>(trees.size()); ++i) read.push_back(peer.hub().slot_at(i));
  }
  REKINDLE_CHECK(no_peer_has_gone_on());
  std::vector<const float*> partials;
  partials.reserve(read.size());
  for (const Gradient& partial : read) partials.push_back(partial.data() + shard.first);
  slot_0_overwritten_ = !on_devices();
  float* const sums = (on_devices() ? sums_ : trainer_.hub().slot_at(0)).data() + shard.first;
  exchange::finish_tree(plan_.leaves, subtrees(), partials, sums, shard.count);
  return {};
}

// An aborted rank may have used its memory for another generation meanwhile.
Status SimExchange::no_peer_has_gone_on() {
  for (std::size_t rank = 0; rank < meeting_.seats.size(); ++rank) {
    if (static_cast<int>(rank) != plan_.rank && meeting_.seats[rank].gone_on)
      return failed(static_cast<int>(rank));
  }
  return {};
}

Result<exchange::Reduced> SimExchange::reduce(const StepHeader& mine) {
  slot_0_overwritten_ = false;
  exchange::Reduced reduced;
  Posted posted{'r', mine, {}, {}, trainer_.slots_tainted()};
  const std::size_t n = seat().posted.size();
  REKINDLE_TRY(reduced.headers, meet(posted));
  REKINDLE_CHECK(nccl_works(false));
  REKINDLE_CHECK(sum_own_shard());
  if (on_devices()) {
    REKINDLE_CHECK(gather_sums());
    for (std::size_t rank = 0; rank < meeting_.seats.size(); ++rank)
      trainer_.taint_sums(meeting_.seats[rank].posted[n].tainted);
    reduced.pieces.push_back({0, sums_});
    return reduced;
  }
  if (planted(Bug::kUpdateBeforeAllShards)) {
    seat().posted.push_back({'S', {}, {}, {}, false});
    meeting_.changed();
  } else {
    REKINDLE_CHECK(meet({'S', {}, {}, {}, false}));
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    Seat& other = meeting_.seats[static_cast<std::size_t>(rank)];
    trainer_.taint_sums(other.posted[n].tainted);
    const exchange::Shard shard = exchange::shard_of(kFloats, ranks(), rank);
    const std::span<const float> slot(other.trainer->hub().slot_at(0));
    if (shard.count > 0) reduced.pieces.push_back({shard.first, slot.subspan(shard.first, shard.count)});
  }
  return reduced;
}

// Each rank sends its sums before it may go on.
Status SimExchange::gather_sums() {
  const auto shard_at = [this](int rank) { return exchange::shard_of(kFloats, ranks(), rank); };
  const auto of_rank = [&](int rank) {
    return std::span(sums_).subspan(shard_at(rank).first, shard_at(rank).count);
  };
  const std::span<const float> own = of_rank(plan_.rank);
  const std::size_t n = seat().posted.size();
  REKINDLE_CHECK(meet({'S', {}, {}, {own.begin(), own.end()}, false}));
  for (int rank = 0; rank < ranks(); ++rank)
    if (rank != plan_.rank)
      std::ranges::copy(meeting_.seats[static_cast<std::size_t>(rank)].posted[n].sums, of_rank(rank).begin());
  return pass(trainer_.world().engine().between(0, trainer_.world().plan().exchange_ms));
}

Status SimExchange::release() {
  if (on_devices()) return {};
  const std::size_t reads = ++seat().reads;
  meeting_.changed();
  return wait_for_all([reads](const Seat& seat) { return seat.reads >= reads; });
}

Result<std::vector<StepHeader>> SimExchange::gather(const StepHeader& mine) {
  return meet({'g', mine, {}, {}, false});
}

Status SimExchange::all_gather(exchange::RankPieces pieces, const std::vector<bool>& receives) {
  const auto rank = static_cast<std::size_t>(plan_.rank);
  const std::size_t n = seat().posted.size();
  REKINDLE_CHECK(meet({'a', {}, pieces[rank], {}, trainer_.tainted()}));
  if (!receives[rank]) return {};
  bool tainted = !pieces[rank].empty() && trainer_.tainted();
  for (std::size_t giver = 0; giver < pieces.size(); ++giver) {
    if (giver == rank || pieces[giver].empty()) continue;
    const Posted posted = meeting_.seats[giver].posted[n];  // a copy, because `posted` may grow meanwhile
    tainted = tainted || posted.tainted;
    for (std::size_t i = 0; i < pieces[giver].size(); ++i) {
      const std::span<std::byte> to = pieces[giver][i], from = posted.gives[i];
      const std::size_t half = to.size() / 2;
      std::ranges::copy(from.subspan(0, half), to.begin());
      REKINDLE_CHECK(pass(trainer_.world().engine().between(1, 15)));
      std::ranges::copy(from.subspan(half), to.begin() + static_cast<std::ptrdiff_t>(half));
    }
  }
  trainer_.set_tainted(tainted);
  return no_peer_has_gone_on();
}

}  // namespace rekindle::sim
