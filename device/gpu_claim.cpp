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

struct Name {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t bytes = 0;

  Name(const std::string& identity, const std::string& what) {
    const std::string name = str("rekindle-gpu/", identity, "/", what);
    const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::copy_n(name.begin(), length, address.sun_path + 1);  // the name begins with a zero byte
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Fd make_socket() { return Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// A socket's name that is no file is free again as soon as the process is dead, and needs no folder that all
// users may write to. nullopt: another process has the name.
std::optional<Fd> claim(const std::string& identity, const std::string& what) {
  const Name name(identity, what);
  Fd socket = make_socket();
  const int bound = ::bind(socket.get(), name.get(), name.bytes);
  if (bound != 0 && errno == EADDRINUSE) return std::nullopt;
  return socket;  // without a claim, if there can be none
}

// Of any of the GPUs. Takes nothing.
bool is_claimed(std::span<const std::string> identities, const std::string& what) {
  return std::ranges::any_of(identities, [&](const std::string& identity) {
    const Name name(identity, what);
    return !identity.empty() && ::connect(make_socket().get(), name.get(), name.bytes) == 0;
  });
}

std::string of_run(const std::string& run) { return "run " + run; }

tl::unexpected<Error> no_gpu_left(const Status& why) {
  const std::string what = why ? "another trainer cannot use a GPU of this machine" : why.error().what;
  Error error{ExitCode::kGaveUp, what + "; each other GPU here has a trainer",
              "look at nvidia-smi; it is tried again", ErrorKind::kNotYet};
  return forward_error(std::move(error));
}

}  // namespace

Result<ClaimedGpu> claim_gpu(std::span<const std::string> identities, int number, const std::string& run,
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
  const auto keep = [&](std::optional<Fd> claimed) {
    if (claimed) gpu.claims.push_back(std::move(*claimed));
  };
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
      // Before it is opened, which takes seconds: another trainer looks at both names.
      std::optional<Fd> runs = run.empty() ? std::nullopt : claim(identity(gpu.index), of_run(run));
      if (opens(gpu.index)) {
        keep(std::move(socket));
        keep(std::move(runs));
        return gpu;
      }
      keep(claim(identity(gpu.index), kUnusable));
    }
    if (std::ranges::find(unusable, false) == unusable.end()) return forward_error(why.error());
    const bool may_share = run.empty() || number >= count || !is_claimed(identities, of_run(run));
    if (!may_share && (!why || is_claimed(identities, kUnusable))) return no_gpu_left(why);
  }
  gpu.index = number % count;
  REKINDLE_CHECK(open(gpu.index));
  return gpu;
}

}  // namespace rekindle::device
