#include "exchange/transfers.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "exchange/failure.hpp"

namespace rekindle::exchange {
namespace {

constexpr std::size_t kBytesFrame = std::size_t{1} << 20;

std::uint32_t chunks_in(const Shard& shard) {
  return static_cast<std::uint32_t>((shard.count + kChunkFloats - 1) / kChunkFloats);
}

tl::unexpected<Error> out_of_step(int peer, const FrameHead& head) {
  return fail_rank(
      peer, str("it sent frame (kind ", static_cast<int>(head.kind), ", slot ", head.slot, ", call ",
                head.call, ", chunk ", head.chunk, ", ", head.bytes,
                " bytes), which is not the expected frame: do all ranks run the same program and model?"));
}

StepHeader hash_header(std::uint64_t hash) {
  StepHeader header;
  header.state_hash = {0, hash};
  return header;
}

}  // namespace

HeaderTransfer::HeaderTransfer(std::uint32_t call, const StepHeader& mine, int rank, int ranks)
    : headers(static_cast<std::size_t>(ranks)),
      call_(call),
      rank_(rank),
      header_sent_(headers.size()),
      header_received_(headers.size()) {
  headers[rank] = mine;
}

std::optional<Outgoing> HeaderTransfer::next_out(int peer) {
  if (header_sent_[peer]) return std::nullopt;
  header_sent_[peer] = true;
  return Outgoing{{FrameKind::kHeader, 0, call_, 0, sizeof(StepHeader)},
                  std::as_bytes(std::span(&headers[rank_], 1))};
}

Result<std::span<std::byte>> HeaderTransfer::place(int peer, const FrameHead& head) {
  const FrameHead due{FrameKind::kHeader, 0, call_, 0, sizeof(StepHeader)};
  if (header_received_[peer] || head != due) return out_of_step(peer, head);
  return std::as_writable_bytes(std::span(&headers[peer], 1));
}

Status HeaderTransfer::arrived(int peer, const FrameHead&) {
  header_received_[peer] = true;
  return {};
}

PartWindow::PartWindow(const Layout& layout, int rank)
    : partials_(layout.partials), floats_(partials_.size()) {
  for (std::size_t peer = 0; peer < floats_.size(); ++peer)
    if (static_cast<int>(peer) != rank) floats_[peer].resize(kWindow * partials_[peer] * kChunkFloats);
}

std::span<float> PartWindow::at(int peer, std::uint32_t chunk, int slot) {
  const std::size_t index = chunk % kWindow * partials_[peer] + slot;
  return std::span(floats_[peer]).subspan(index * kChunkFloats, kChunkFloats);
}

ReduceTransfer::ReduceTransfer(std::uint32_t call, const StepHeader& mine, const Plan& plan,
                               const Layout& layout, std::vector<std::span<float>> slots, PartWindow& window)
    : HeaderTransfer(call, mine, plan.rank, static_cast<int>(plan.members.size())),
      leaves_(plan.leaves),
      layout_(layout),
      slots_(std::move(slots)),
      window_(window) {
  const int ranks = static_cast<int>(plan.members.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard shard = shard_of(slots_[0].size(), ranks, rank);
    peers_.push_back({shard, chunks_in(shard), static_cast<std::size_t>(layout.partials[rank])});
  }
  sum_what_is_there();  // if there are no peers, this sums everything
}

std::span<float> ReduceTransfer::chunk_of(const Shard& shard, std::uint32_t chunk, int slot) const {
  const std::size_t first = chunk * kChunkFloats;
  return slots_[slot].subspan(shard.first + first, std::min(kChunkFloats, shard.count - first));
}

std::optional<Outgoing> ReduceTransfer::next_out(int peer) {
  if (!HeaderTransfer::sent_all(peer)) return HeaderTransfer::next_out(peer);
  Progress& p = peers_[peer];
  const auto frame = [&](FrameKind kind, const Shard& shard, std::uint32_t chunk, int slot) {
    const auto payload = std::as_bytes(chunk_of(shard, chunk, slot));
    return Outgoing{
        {kind, static_cast<std::uint16_t>(slot), call_, chunk, static_cast<std::uint32_t>(payload.size())},
        payload};
  };
  if (p.sums_sent < summed_)
    return frame(FrameKind::kSum, peers_[rank_].shard, static_cast<std::uint32_t>(p.sums_sent++), 0);
  const std::size_t mine = peers_[rank_].partials;
  if (p.parts_sent < mine * p.chunks) {
    const std::size_t part = p.parts_sent++;
    return frame(FrameKind::kPart, p.shard, static_cast<std::uint32_t>(part / mine),
                 static_cast<int>(part % mine));
  }
  return std::nullopt;
}

bool ReduceTransfer::sent_all(int peer) const {
  const Progress& p = peers_[peer];
  return HeaderTransfer::sent_all(peer) && p.sums_sent == my_chunks() &&
         p.parts_sent == peers_[rank_].partials * p.chunks;
}

bool ReduceTransfer::has_room(int peer) const {
  const Progress& p = peers_[peer];
  return p.parts_received == parts_due(peer) || p.parts_received / p.partials < summed_ + kWindow;
}

bool ReduceTransfer::is_late(int peer) const {
  // Missing sums do not count as late: sums need the parts of all ranks.
  return HeaderTransfer::is_late(peer) || (peers_[peer].parts_received < parts_due(peer) && has_room(peer));
}

bool ReduceTransfer::received_all(int peer) const {
  const Progress& p = peers_[peer];
  return HeaderTransfer::received_all(peer) && p.parts_received == parts_due(peer) &&
         p.sums_received == p.chunks;
}

Result<std::span<std::byte>> ReduceTransfer::place(int peer, const FrameHead& head) {
  if (!HeaderTransfer::received_all(peer)) return HeaderTransfer::place(peer, head);
  const Progress& p = peers_[peer];
  std::span<float> to;
  FrameHead due{head.kind, 0, call_, 0, 0};
  if (head.kind == FrameKind::kPart && p.parts_received < parts_due(peer)) {
    due.chunk = static_cast<std::uint32_t>(p.parts_received / p.partials);
    due.slot = static_cast<std::uint16_t>(p.parts_received % p.partials);
    const std::size_t floats = chunk_of(peers_[rank_].shard, due.chunk, 0).size();
    to = window_.at(peer, due.chunk, due.slot).first(floats);
  } else if (head.kind == FrameKind::kSum && p.sums_received < p.chunks) {
    due.chunk = static_cast<std::uint32_t>(p.sums_received);
    to = chunk_of(p.shard, due.chunk, 0);
    overwritten_ = true;
  }
  due.bytes = static_cast<std::uint32_t>(to.size_bytes());
  if (to.empty() || head != due) return out_of_step(peer, head);
  return std::as_writable_bytes(to);
}

Status ReduceTransfer::arrived(int peer, const FrameHead& head) {
  Progress& p = peers_[peer];
  if (head.kind == FrameKind::kHeader) return HeaderTransfer::arrived(peer, head);
  if (head.kind == FrameKind::kSum) {
    ++p.sums_received;
  } else {
    ++p.parts_received;
    sum_what_is_there();
  }
  return {};
}

void ReduceTransfer::sum_what_is_there() {
  const Shard& shard = peers_[rank_].shard;
  for (; summed_ < my_chunks(); ++summed_) {
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer)
      if (peer != rank_ && peers_[peer].parts_received < (summed_ + 1) * peers_[peer].partials) return;
    std::vector<const float*> partials;
    for (const Contribution& c : layout_.contributions)
      partials.push_back(c.rank == rank_ ? chunk_of(shard, summed_, c.slot).data()
                                         : window_.at(c.rank, summed_, c.slot).data());
    const std::span<float> out = chunk_of(shard, summed_, 0);
    overwritten_ = true;
    finish_tree(leaves_, layout_.subtrees, partials, out.data(), out.size());
  }
}

BytesTransfer::BytesTransfer(std::uint32_t call, int rank, RankPieces pieces,
                             const std::vector<bool>& receives)
    : HeaderTransfer(call, hash_header(copy_hash(pieces, receives)), rank, static_cast<int>(pieces.size())),
      hash_(headers[rank].state_hash) {
  for (int peer = 0; peer < static_cast<int>(pieces.size()); ++peer) {
    peers_.push_back({ByteCursor(pieces[rank]), ByteCursor(pieces[peer])});
    if (peer != rank && receives[peer]) peers_.back().to_send = total_bytes(pieces[rank]);
    if (peer != rank && receives[rank]) peers_.back().to_receive = total_bytes(pieces[peer]);
  }
}

std::optional<Outgoing> BytesTransfer::next_out(int peer) {
  if (!HeaderTransfer::sent_all(peer)) return HeaderTransfer::next_out(peer);
  Progress& p = peers_[peer];
  if (p.to_send > 0) {
    const std::span<std::byte> payload = p.out.next(kBytesFrame);
    p.to_send -= payload.size();
    return Outgoing{
        {FrameKind::kBytes, 0, call_, p.frames_sent++, static_cast<std::uint32_t>(payload.size())}, payload};
  }
  if (!moved_all()) return std::nullopt;
  p.finished_sent = true;
  return Outgoing{{FrameKind::kFinished, 0, call_, 0, 0}, {}};
}

bool BytesTransfer::moved_all() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Progress& p) { return p.to_send == 0 && p.to_receive == 0; });
}

bool BytesTransfer::is_late(int peer) const {
  return HeaderTransfer::is_late(peer) || peers_[peer].to_receive > 0;
}

Result<std::span<std::byte>> BytesTransfer::place(int peer, const FrameHead& head) {
  if (!HeaderTransfer::received_all(peer)) return HeaderTransfer::place(peer, head);
  Progress& p = peers_[peer];
  FrameHead due{FrameKind::kFinished, 0, call_, 0, 0};
  std::span<std::byte> to;
  if (p.to_receive > 0) {
    to = p.in.next(kBytesFrame);
    due = {FrameKind::kBytes, 0, call_, p.frames_received, static_cast<std::uint32_t>(to.size())};
  }
  if (head != due) return out_of_step(peer, head);
  return to;
}

Status BytesTransfer::arrived(int peer, const FrameHead& head) {
  Progress& p = peers_[peer];
  if (head.kind == FrameKind::kHeader) {
    if (headers[peer].state_hash != hash_) return fail_rank(peer, kOtherCopy);
    return HeaderTransfer::arrived(peer, head);
  }
  if (head.kind == FrameKind::kFinished) {
    p.finished_received = true;
  } else {
    ++p.frames_received;
    p.to_receive -= head.bytes;
  }
  return {};
}

}  // namespace rekindle::exchange
