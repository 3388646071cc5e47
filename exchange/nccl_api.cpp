#include "exchange/nccl_api.hpp"

#include <dlfcn.h>

#include "base/text.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kOldest = nccl_version(2, 18, 0);  // non-blocking groups work, of torch 2.1 and later

constexpr int kFirstWithRevoke = nccl_version(2, 28, 7);

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<NcclApi> load_nccl(const std::string& library) {
  const char* const name = library.empty() ? "libnccl.so.2" : library.c_str();
  // Never unloaded: its threads may outlive every communicator.
  void* const found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | (library.empty() ? RTLD_NOLOAD : 0));
  if (found == nullptr)
    return fail(ExitCode::kConfig, str(name, " is not there"),
                "--exchange auto goes through the host's memory");
  NcclApi api;
  NcclCode (*get_version)(int*) = nullptr;
  if (!find(found, "ncclGetVersion", get_version) || get_version(&api.version) != NcclCode::kSuccess)
    return fail(ExitCode::kConfig, str(name, " is no NCCL"),
                "--exchange auto goes through the host's memory");
  if (api.version >= kFirstWithRevoke) find(found, "ncclCommRevoke", api.revoke);
  const bool complete =
      find(found, "ncclGetUniqueId", api.get_unique_id) &&
      find(found, "ncclCommInitRankConfig", api.init_rank) &&
      find(found, "ncclCommGetAsyncError", api.async_error) &&
      find(found, "ncclGroupStart", api.group_start) && find(found, "ncclGroupEnd", api.group_end) &&
      find(found, "ncclSend", api.send) && find(found, "ncclRecv", api.receive) &&
      find(found, "ncclAllGather", api.all_gather) && find(found, "ncclCommAbort", api.abort) &&
      find(found, "ncclGetLastError", api.last_error);
  if (!complete || api.version < kOldest)
    return fail(ExitCode::kConfig,
                str("NCCL ", api.version / 10000, ".", api.version / 100 % 100, ".", api.version % 100,
                    " is too old"),
                "2.18 is needed; --exchange auto goes through the host's memory");
  return api;
}

}  // namespace rekindle::exchange
