// The functions of NCCL that are used, found at run time in the library that LibTorch has loaded. A second
// copy of the library in one process would not share its state, and libtorch_cuda needs its own copy by
// itself. So no header of NCCL is included; the types and values here are those of nccl.h of NCCL 2.28, and
// have not changed since 2.14.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "base/result.hpp"

struct ncclComm;

namespace rekindle::exchange {

using NcclHandle = ncclComm*;

struct NcclId {
  char bytes[128] = {};
};

enum class NcclCode : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

inline constexpr int kNcclFloat = 7;  // ncclFloat32

constexpr int nccl_version(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// The fields that NCCL 2.14 had; later libraries take `size` and `version` into account.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = nccl_version(2, 14, 0);
  int blocking = 0;  // calls return kInProgress, and async_error() tells the end
};

struct NcclApi {
  int version = 0;  // as nccl_version()
  NcclCode (*get_unique_id)(NcclId*) = nullptr;
  NcclCode (*init_rank)(NcclHandle*, int ranks, NcclId, int rank, NcclConfig*) = nullptr;
  NcclCode (*async_error)(NcclHandle, NcclCode*) = nullptr;
  NcclCode (*group_start)() = nullptr;
  NcclCode (*group_end)() = nullptr;
  NcclCode (*send)(const void*, std::size_t count, int type, int peer, NcclHandle, void* stream) = nullptr;
  NcclCode (*receive)(void*, std::size_t count, int type, int peer, NcclHandle, void* stream) = nullptr;
  NcclCode (*all_gather)(const void*, void*, std::size_t count, int type, NcclHandle, void* stream) = nullptr;
  NcclCode (*revoke)(NcclHandle, int flags) = nullptr;  // nullptr before 2.28.7
  NcclCode (*abort)(NcclHandle) = nullptr;
  const char* (*last_error)(NcclHandle) = nullptr;
};

// `library`: a name for dlopen(3); empty: the one that is loaded already, libnccl.so.2. Errors
// (ExitCode::kConfig): there is none; a version without what is needed.
Result<NcclApi> load_nccl(const std::string& library = {});

}  // namespace rekindle::exchange
