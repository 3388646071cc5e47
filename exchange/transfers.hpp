// What the calls of a tcp exchange move.
#pragma once

#include <array>
#include <vector>

#include "exchange/byte_cursor.hpp"
#include "exchange/layout.hpp"
#include "exchange/mesh.hpp"

namespace rekindle::exchange {

inline constexpr std::size_t kChunkFloats = std::size_t{64}
                                            << 10;  // 256 KiB: partial sums and their sum stay in L2
inline constexpr std::size_t kWindow = 4;           // chunks of one peer that wait for the others'

// One header to and from everybody. The other transfers begin with it.
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

// Chunks of partial sums on their way between recv() and their sum; kept over the steps.
class PartWindow {
 public:
  PartWindow(const Layout& layout, int rank);
  std::span<float> at(int peer, std::uint32_t chunk, int slot);

 private:
  std::vector<int> partials_;
  std::vector<std::vector<float>> floats_;
};

// Every rank sends every owner the owner's shard of its partial sums, chunk by chunk, and gets the sums back.
//
// Why sums may overwrite slot 0 in place: an owner has a chunk's sum only after it has received that chunk of
// every partial from every rank, so what the arriving sum overwrites has left this process. In one's own
// shard the elements are read and written by finish_tree alone.
//
// Why it cannot get stuck: a rank stops reading a peer only while that peer is kWindow chunks ahead of the
// slowest; the slowest peer of the chunk that is missing is never ahead, so it is read; what it sends before
// that chunk (its sums, other chunks) needs no permission from anybody. Sums go where nothing has to be freed
// first.
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
  bool spoilt() const { return spoilt_; }  // a sum has been written over a partial sum, or begun to be

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
  std::uint32_t summed_ = 0;  // chunks of my shard
  bool spoilt_ = false;
};

// Every rank's bytes to those that receive, then a frame from and to everybody: "I have sent and
// received all". So every connection is watched to the end, also those on which no bytes go. The header's
// state_hash carries copy_hash().
class BytesTransfer final : public HeaderTransfer {
 public:
  BytesTransfer(std::uint32_t call, int rank, RankPieces pieces, const std::vector<bool>& receives);

  std::optional<Outgoing> next_out(int peer) override;
  bool sent_all(int peer) const override { return peers_[peer].told; }
  bool received_all(int peer) const override { return peers_[peer].finished; }
  bool is_late(int peer) const override;
  Result<std::span<std::byte>> place(int peer, const FrameHead& head) override;
  Status arrived(int peer, const FrameHead& head) override;

 private:
  struct Progress {
    ByteCursor out, in;
    std::size_t to_send = 0, to_receive = 0;  // bytes
    std::uint32_t frames_sent = 0, frames_received = 0;
    bool told = false;      // that this rank has moved all
    bool finished = false;  // so the peer says
  };
  bool moved_all() const;

  const Hash128 hash_;
  std::vector<Progress> peers_;
};

}  // namespace rekindle::exchange
