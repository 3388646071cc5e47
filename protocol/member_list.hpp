// Who is in a generation, by rank.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rekindle::protocol {

// Where peers reach a trainer; the exchange's endpoint as plain data.
struct Address {
  std::string host, address, nonce;
  std::int64_t pid = 0;
  int control_fd = -1;
  std::uint16_t port = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, host, address, nonce, pid, control_fd, port)

struct Member {
  std::string trainer;
  Address address;
};

// Immutable. Shared, because each of 4096 trainers is told all 4096 members, and whoever passes a list on has
// it in hand for each of them: copies would take gigabytes. For the same reason it keeps its text, the form
// in which it travels, so that nobody writes it twice.
class MemberList {
 public:
  MemberList() = default;
  MemberList(std::vector<Member> members);

  // The list with this text. About 50 bytes a member: names and addresses say only where they differ from the
  // member before.
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
  std::shared_ptr<const Body> body_;  // none: no members
};

}  // namespace rekindle::protocol
