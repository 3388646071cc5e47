// The members of a generation, by rank.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rekindle::protocol {

// Where peers reach a trainer: exchange::Endpoint as plain data.
struct Address {
  std::string host, address, nonce, nccl;
  std::int64_t pid = 0;
  int control_fd = -1;
  std::uint16_t port = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, host, address, nonce, nccl, pid, control_fd, port)

struct Member {
  std::string trainer;
  Address address;
};

// Immutable. Copies share one body, because each of 4096 trainers receives all 4096 members, and each process
// that forwards the list holds one for each trainer: real copies would take gigabytes. The encoded text is
// kept for the same reason, so that the list is encoded only once.
class MemberList {
 public:
  MemberList() = default;
  MemberList(std::vector<Member> members);

  // Decodes a list. About 50 bytes a member: a name or an address stores only the difference to the member
  // before.
  static Result<MemberList> parse(std::string_view text);
  std::string_view text() const { return body_ ? body_->text : std::string_view(); }

  std::size_t size() const { return body_ ? body_->members.size() : 0; }
  const Member& operator[](std::size_t rank) const { return body_->members[rank]; }
  auto begin() const { return body_ ? body_->members.data() : nullptr; }
  auto end() const { return begin() + size(); }

 private:
  struct Body {
    std::vector<Member> members;
    std::string text;
  };
  std::shared_ptr<const Body> body_;  // null: no members
};

}  // namespace rekindle::protocol
