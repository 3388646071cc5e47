#include "exchange/frame.hpp"

#include <algorithm>
#include <cstring>

namespace rekindle::exchange {
namespace {

std::optional<FrameMac> mac_of(const std::optional<FrameKey>& key) {
  return key ? std::optional<FrameMac>(*key) : std::nullopt;
}

// Skips up to `done` bytes of `part` and subtracts the skipped bytes from `done`. Returns the rest of `part`.
template <class Byte>
std::span<Byte> rest(std::span<Byte> part, std::size_t& done) {
  const std::size_t skip = std::min(done, part.size());
  done -= skip;
  return part.subspan(skip);
}

}  // namespace

FrameWriter::FrameWriter(const std::optional<FrameKey>& key) : mac_(mac_of(key)) {}

void FrameWriter::begin(const Outgoing& frame) {
  const auto head = std::as_bytes(std::span(&frame.head, 1));
  std::ranges::copy(head, head_.begin());
  head_bytes_ = head.size();
  payload_ = frame.payload;
  tag_bytes_ = 0;
  done_ = 0;
  busy_ = true;
  if (!mac_) return;
  mac_->add(head);
  std::ranges::copy(mac_->finish(), head_.begin() + sizeof(FrameHead));
  head_bytes_ = head_.size();
  if (payload_.empty()) return;
  mac_->add(payload_);
  tag_ = mac_->finish();
  tag_bytes_ = tag_.size();
}

IoResult FrameWriter::send_some(int fd) {
  std::size_t done = done_;
  const auto head = rest(std::span<const std::byte>(head_).first(head_bytes_), done);
  const auto payload = rest(payload_, done);
  const auto tag = rest(std::span<const std::byte>(tag_).first(tag_bytes_), done);
  const IoResult sent = exchange::send_some(fd, head, payload, tag);
  done_ += sent.bytes;
  if (done_ == head_bytes_ + payload_.size() + tag_bytes_) busy_ = false;
  return sent;
}

FrameReader::FrameReader(const std::optional<FrameKey>& key) : mac_(mac_of(key)) {}

FrameReader::Received FrameReader::receive_some(int fd) {
  const std::size_t tag_bytes = mac_ ? sizeof(FrameTag) : 0;
  const auto first = in_payload_ ? payload_ : std::as_writable_bytes(std::span(&head_.frame, 1));
  const auto second = std::span<std::byte>(in_payload_ ? tag_ : head_.tag).first(tag_bytes);
  std::size_t done = done_;
  const auto to = rest(first, done);
  const IoResult got = exchange::receive_some(fd, to, rest(second, done));
  if (got.io != Io::kDone) return {got.io};
  busy_ = true;
  done_ += got.bytes;
  // Add the bytes now, while they are in the processor's cache.
  if (mac_) mac_->add(to.first(std::min(got.bytes, to.size())));
  if (done_ < first.size() + second.size()) return {};
  return {Io::kDone, in_payload_ ? finish_payload() : finish_head()};
}

FrameReader::Event FrameReader::finish_head() {
  return mac_ && !mac_->finish_with(head_.tag) ? Event::kAltered : Event::kHead;
}

FrameReader::Event FrameReader::finish_payload() {
  busy_ = in_payload_ = false;
  done_ = 0;
  return mac_ && !mac_->finish_with(tag_) ? Event::kAltered : Event::kFrame;
}

void FrameReader::place(std::span<std::byte> payload) {
  payload_ = payload;
  done_ = 0;
  in_payload_ = busy_ = !payload.empty();
}

}  // namespace rekindle::exchange
