#include "device/gpu_claim.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace rekindle::device {
namespace {

// Claims of one GPU: the first trainer on it has place 0.
constexpr int kMostPlaces = 64;

// The mark of a GPU that a trainer could not open. It is there before that trainer takes another's GPU, so
// whoever finds no free GPU because of that also finds the mark.
constexpr const char* kUnusable = "unusable";

// A socket's name that is no file is free again as soon as the process is dead, and needs no folder that all
// users may write to. nullopt: another process has the name.
std::optional<Fd> claim(const std::string& identity, const std::string& what) {
  const std::string name = str("rekindle-gpu/", identity, "/", what);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);  // the name begins with a zero byte
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes);
  if (bound != 0 && errno == EADDRINUSE) return std::nullopt;
  return socket;  // without a claim, if there can be none
}

tl::unexpected<Error> no_gpu_left(const Status& why) {
  const std::string what = why ? "another trainer cannot use a GPU of this machine" : why.error().what;
  Error error{ExitCode::kGaveUp, what + "; each other GPU here has a trainer",
              "look at nvidia-smi; it is tried again", ErrorKind::kNotYet};
  return forward_error(std::move(error));
}

}  // namespace

Result<ClaimedGpu> claim_gpu(std::span<const std::string> identities, int number,
                             const std::function<Status(int index)>& open) {
  const int count = static_cast<int>(identities.size());
  const auto identity = [&](int index) -> const std::string& {
    return identities[static_cast<std::size_t>(index)];
  };
  std::vector<bool> unusable(identities.size(), false);
  Status why;  // the first of them
  ClaimedGpu gpu;
  const auto opens = [&](int index) {
    Status opened = open(index);
    if (opened) return true;
    unusable[static_cast<std::size_t>(index)] = true;
    if (why) why = std::move(opened);
    return false;
  };
  const auto is_marked = [](const std::string& each) { return !each.empty() && !claim(each, kUnusable); };
  for (int place = 0; place < kMostPlaces; ++place) {
    for (int i = 0; i < count; ++i) {
      gpu.index = (number % count + i) % count;
      if (unusable[static_cast<std::size_t>(gpu.index)]) continue;
      if (identity(gpu.index).empty()) {
        opens(gpu.index);  // for the error
        continue;
      }
      auto socket = claim(identity(gpu.index), str(place));
      if (!socket) continue;
      if (opens(gpu.index)) {
        gpu.claims.push_back(std::move(*socket));
        return gpu;
      }
      if (auto mark = claim(identity(gpu.index), kUnusable)) gpu.claims.push_back(std::move(*mark));
    }
    if (std::ranges::find(unusable, false) == unusable.end()) return forward_error(why.error());
    if (place == 0 && number < count && (!why || std::ranges::any_of(identities, is_marked)))
      return no_gpu_left(why);
  }
  gpu.index = number % count;
  REKINDLE_CHECK(open(gpu.index));
  return gpu;
}

}  // namespace rekindle::device
