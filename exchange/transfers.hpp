// The frames that each call of a tcp exchange moves.
#pragma once

#include <array>
#include <vector>

#include "exchange/byte_cursor.hpp"
#include "exchange/layout.hpp"
#include "exchange/mesh.hpp"

namespace rekindle::exchange {

inline constexpr std::size_t kChunkFloats = std::size_t{64}
                                            << 10;  // 256 KiB: partial sums and their sum stay in L2
inline constexpr std::size_t kWindow = 4;           // chunks of one peer that wait for other peers' chunks

// One header to and from every peer. The other transfers begin with this exchange.
class HeaderTransfer : public Transfer {
 public:
  HeaderTransfer(std::uint32_t call, const StepHeader& mine, int rank, int ranks);
  std::optional<Outgoing> next_out(int peer) override;
  bool sent_all(int peer) const override { return header_sent_[peer]; }
  bool has_room(int) const override { return true; }
  bool received_all(int peer) const override { return header_received_[peer]; }
  bool is_late(int peer) const override { return !header_received_[peer]; }
  Result<std::span<std::byte>> place(int peer, const FrameHead& head) override;
  Status arrived(int peer, const FrameHead& head) override;

  std::vector<StepHeader> headers;

 protected:
  const std::uint32_t call_;
  const int rank_;

 private:
  std::vector<bool> header_sent_, header_received_;
};

// Chunks of partial sums that are received and not yet summed. The memory is reused in every step.
class PartWindow {
 public:
  PartWindow(const Layout& layout, int rank);
  std::span<float> at(int peer, std::uint32_t chunk, int slot);

 private:
  std::vector<int> partials_;
  std::vector<std::vector<float>> floats_;
};

// Every rank sends every owner the owner's shard of its partial sums, chunk by chunk, and receives the sums.
//
// Why sums may overwrite slot 0 in place: an owner has a chunk's sum only after it has received that chunk of
// every partial from every rank. So when the sum arrives, the chunk that it overwrites has been sent. In this
// rank's own shard only finish_tree reads and writes the elements.
//
// Why there is no deadlock: a rank stops reading a peer only while that peer is kWindow chunks ahead of the
// slowest peer. The slowest peer of the missing chunk is never ahead, so its frames are read. The frames that
// it sends before that chunk (its sums, other chunks) do not wait for any other rank. Sums have a place that
// is always free.
class ReduceTransfer final : public HeaderTransfer {
 public:
  ReduceTransfer(std::uint32_t call, const StepHeader& mine, const Plan& plan, const Layout& layout,
                 std::vector<std::span<float>> slots, PartWindow& window);

  std::optional<Outgoing> next_out(int peer) override;
  bool sent_all(int peer) const override;
  bool has_room(int peer) const override;
  bool received_all(int peer) const override;
  bool is_late(int peer) const override;
  Result<std::span<std::byte>> place(int peer, const FrameHead& head) override;
  Status arrived(int peer, const FrameHead& head) override;
  bool overwritten() const { return overwritten_; }  // a sum has overwritten a partial sum, at least in part

 private:
  struct Progress {
    Shard shard;               // the peer's
    std::uint32_t chunks = 0;  // of the peer's shard
    std::size_t partials = 0;  // that the peer contributes
    std::size_t parts_sent = 0, sums_sent = 0, parts_received = 0, sums_received = 0;  // frames
  };
  std::span<float> chunk_of(const Shard& shard, std::uint32_t chunk, int slot) const;
  std::size_t parts_due(int peer) const { return peers_[peer].partials * my_chunks(); }
  std::uint32_t my_chunks() const { return peers_[rank_].chunks; }
  void sum_what_is_there();

  const int leaves_;
  const Layout& layout_;
  const std::vector<std::span<float>> slots_;
  PartWindow& window_;
  std::vector<Progress> peers_;
  std::uint32_t summed_ = 0;  // chunks of this rank's shard
  bool overwritten_ = false;
};

// Sends every rank's bytes to the ranks that receive, then one kFinished frame to and from every peer: the
// sender has sent and received everything. So every connection is watched until the end, also a connection
// without bytes. The header's state_hash carries copy_hash().
class BytesTransfer final : public HeaderTransfer {
 public:
  BytesTransfer(std::uint32_t call, int rank, RankPieces pieces, const std::vector<bool>& receives);

  std::optional<Outgoing> next_out(int peer) override;
  bool sent_all(int peer) const override { return peers_[peer].finished_sent; }
  bool received_all(int peer) const override { return peers_[peer].finished_received; }
  bool is_late(int peer) const override;
  Result<std::span<std::byte>> place(int peer, const FrameHead& head) override;
  Status arrived(int peer, const FrameHead& head) override;

 private:
  struct Progress {
    ByteCursor out, in;
    std::size_t to_send = 0, to_receive = 0;  // bytes
    std::uint32_t frames_sent = 0, frames_received = 0;
    bool finished_sent = false;      // this rank has moved all bytes
    bool finished_received = false;  // the peer has moved all bytes
  };
  bool moved_all() const;

  const Hash128 hash_;
  std::vector<Progress> peers_;
};

}  // namespace rekindle::exchange
