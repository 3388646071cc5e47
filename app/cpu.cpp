#include "app/cpu.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/text.hpp"

namespace rekindle::app {
namespace {

// Each instruction set contains those before it.
struct Isa {
  const char* name;
  std::vector<const char*> more;  // flags of /proc/cpuinfo that the one before does not have
};
const std::vector<Isa>& isas() {
  static const std::vector<Isa> kIsas = {{"AVX512_CORE_BF16", {"avx512_bf16"}},
                                         {"AVX512_CORE_FP16", {"avx512_fp16"}},
                                         {"AVX512_CORE_AMX", {"amx_tile", "amx_bf16", "amx_int8"}},
                                         {"AVX512_CORE_AMX_FP16", {"amx_fp16"}}};
  return kIsas;
}

// 0: none
std::size_t rank_of(const std::string& name) {
  for (std::size_t i = 0; i < isas().size(); ++i)
    if (name == isas()[i].name) return i + 1;
  return 0;
}

}  // namespace

#if defined(__x86_64__)
std::string cpu_capability() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return "avx512";
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "default";
}
#else
std::string cpu_capability() { return "default"; }
#endif

bool has_capability(const std::string& here, const std::string& needed) {
  const auto rank = [](const std::string& name) { return name == "avx512" ? 2 : name == "avx2" ? 1 : 0; };
  return rank(here) >= rank(needed);
}

Status check_capability(const std::string& host, const std::string& here, const std::string& needed) {
  if (has_capability(here, needed)) return {};
  return fail(ExitCode::kConfig, str("the CPU of ", host, " has no ", needed, ", which the run began with"),
              "use machines of the first kind (sbatch --constraint, the instance type of a cloud, "
              "nodeAffinity in Kubernetes), or begin a new run");
}

namespace {

// An entry of /proc/cpuinfo; empty: it is not there.
std::string of_cpu(const std::string& key) {
  std::ifstream cpu("/proc/cpuinfo");
  for (std::string line; std::getline(cpu, line);) {
    const auto at = line.find(':');
    if (line.starts_with(key) && at + 2 < line.size()) return line.substr(at + 2);
  }
  return "";
}

}  // namespace

std::string bf16_isa_of(const std::string& flags) {
  std::istringstream words(flags);
  const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  std::string best;
  for (const Isa& isa : isas()) {
    if (!std::ranges::all_of(isa.more,
                             [&](const char* flag) { return std::ranges::find(all, flag) != all.end(); }))
      break;
    best = isa.name;
  }
  return best;
}

std::string bf16_isa() { return bf16_isa_of(of_cpu("flags")); }

std::string cpu_name() { return of_cpu("model name"); }

bool has_bf16_isa(const std::string& here, const std::string& needed) {
  return rank_of(here) >= rank_of(needed);
}

}  // namespace rekindle::app
