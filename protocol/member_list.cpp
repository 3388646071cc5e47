#include "protocol/member_list.hpp"

#include <algorithm>

namespace rekindle::protocol {
namespace {

// Encoding, for each member: trainer, host, address, nonce, nccl, then pid, control_fd, port. A string is the
// number of bytes that it shares with the same string of the previous member, the number of further bytes,
// and these bytes. A number has seven bits in each byte, the lowest bits first.

void put(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
  out.push_back(static_cast<char>(number));
}

void put(std::string& out, const std::string& text, const std::string& before) {
  const std::size_t limit = std::min(text.size(), before.size());
  std::size_t shared = 0;
  while (shared < limit && text[shared] == before[shared]) ++shared;
  put(out, shared);
  put(out, text.size() - shared);
  out.append(text, shared);
}

std::string write(const std::vector<Member>& members) {
  std::string out;
  Member before;
  for (const Member& member : members) {
    const Address &a = member.address, &b = before.address;
    put(out, member.trainer, before.trainer);
    put(out, a.host, b.host);
    put(out, a.address, b.address);
    put(out, a.nonce, b.nonce);
    put(out, a.nccl, b.nccl);
    put(out, static_cast<std::uint64_t>(a.pid));
    put(out, static_cast<std::uint64_t>(static_cast<std::int64_t>(a.control_fd) + 1));  // -1: none
    put(out, a.port);
    before = member;
  }
  return out;
}

// Limit for a name or an address. Without a limit, a short text could expand to long strings that take all
// memory, because a member may repeat the string of the previous one in a few bytes.
constexpr std::uint64_t kMostBytes = 1024;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }
  bool good() const { return good_; }

  std::uint64_t number() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (text_.empty()) break;
      const auto byte = static_cast<unsigned char>(text_.front());
      text_.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return number;
    }
    good_ = false;
    return 0;
  }

  std::string string(const std::string& before) {
    const std::uint64_t shared = number(), rest = number();
    if (!good_ || shared > before.size() || rest > text_.size() || shared + rest > kMostBytes) {
      good_ = false;
      return {};
    }
    std::string text;
    text.reserve(shared + rest);
    text.append(before, 0, shared).append(text_.substr(0, rest));
    text_.remove_prefix(rest);
    return text;
  }

 private:
  std::string_view text_;
  bool good_ = true;
};

}  // namespace

MemberList::MemberList(std::vector<Member> members) {
  if (members.empty()) return;
  std::string text = write(members);
  body_ = std::make_shared<const Body>(Body{std::move(members), std::move(text)});
}

Result<MemberList> MemberList::parse(std::string_view text) {
  std::vector<Member> members;
  const Member nobody;
  Reader in(text);
  while (!in.done()) {
    const Member& before = members.empty() ? nobody : members.back();
    Member member;
    member.trainer = in.string(before.trainer);
    member.address.host = in.string(before.address.host);
    member.address.address = in.string(before.address.address);
    member.address.nonce = in.string(before.address.nonce);
    member.address.nccl = in.string(before.address.nccl);
    member.address.pid = static_cast<std::int64_t>(in.number());
    member.address.control_fd = static_cast<int>(in.number()) - 1;
    member.address.port = static_cast<std::uint16_t>(in.number());
    if (!in.good())
      return fail("a list of members could not be read", "do all processes have the same build?");
    members.push_back(std::move(member));
  }
  MemberList list;
  if (!members.empty()) {
    members.shrink_to_fit();
    list.body_ = std::make_shared<const Body>(Body{std::move(members), std::string(text)});
  }
  return list;
}

}  // namespace rekindle::protocol
