#include "protocol/admission.hpp"

namespace rekindle::protocol {

std::string refusal_of(const Registration& worker, const std::string& build, std::uint64_t directory_inode) {
  if (worker.build != build) return "another build of rekindle: use one for all nodes";
  // Its shards would be written into the other directory, and no checkpoint would be complete. A bind mount
  // and NFS show the same inode, but another device, so devices are not compared.
  const bool known = worker.directory_inode != 0 && directory_inode != 0;
  if (known && worker.directory_inode != directory_inode)
    return "its run directory is not the run's own (a copy, or the storage is not mounted there): all "
           "machines need the same, shared directory";
  return "";
}

}  // namespace rekindle::protocol
