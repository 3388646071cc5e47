// The holder of a run as its claim names it, and what this process can see of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rekindle::run {

struct Holder {
  std::uint64_t term = 0;
  std::string host, boot_id;
  std::string pid_namespace;      // the namespace of pid
  std::string network_namespace;  // empty: unknown (claims of earlier versions)
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // start time of the process, to detect a reused pid
  std::string slurm_job;          // empty: none; slurm_restarts: how often the job had been requeued
  std::uint64_t slurm_restarts = 0;
  std::string slurm_node;  // Slurm's name of the holder's node; empty: none
  std::string since;
  // The holder's supervisor, which started the holder and may start another coordinator. 0: unknown.
  std::int64_t supervisor_pid = 0;
  std::uint64_t supervisor_start_ticks = 0;
  std::uint64_t directory_inode = 0;  // of the run directory; 0: unknown (claims of earlier versions)
  bool ended = false;     // terms/NNNN.ended exists, or a live process holds another directory by this claim
  bool orphaned = false;  // ended because its supervisor died, not because the run ended
};

// The content of a claim of this process, and the holder that a claim names. `source`: its name for messages.
std::string own_claim(std::uint64_t directory_inode);
Result<Holder> read_claim(std::string_view text, const std::string& source);

// Whether this process made the claim, a child of it, or another child of its own parent.
bool is_mine(const Holder& claim);
bool is_of_my_child(const Holder& claim);
bool is_of_my_supervisor(const Holder& claim);

// Whether this process could see the holder's process (same host, boot and pid namespace).
bool visible(const Holder& holder);

// Whether the holder's loopback address is this process's, too.
bool shares_loopback(const Holder& holder);

// Whether that holder is gone for certain: its term has ended, or its process on this host is dead. An
// earlier attempt of this process's own Slurm job counts as gone, because the job was requeued.
bool provably_gone(const Holder& holder);

// Also if a machine with its host name was booted since: this one, unless two machines have the same name. So
// this is enough to say what a run looks like, and not to take it over.
bool looks_gone(const Holder& holder);

// Whether the holder's supervisor is provably dead: it ran on this host, and its process is gone.
bool supervisor_gone(const Holder& holder);

// Whether the holder's process is here and is suspended.
bool suspended(const Holder& holder);

// Whether the holder ran here, and needs to give no other sign of life: its supervisor, which kills a
// coordinator that does nothing for 15 s and starts another one, may be alive, and neither process is
// suspended.
bool attended(const Holder& holder);

}  // namespace rekindle::run
