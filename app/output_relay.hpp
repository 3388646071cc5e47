// What the batch script of a Slurm job prints goes through a process of its own.
#pragma once

#include <optional>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"

namespace rekindle::app {

// While this object exists, standard output and standard error of this process and of its children are pipes,
// and another process writes what comes out of them to where this process's output went before. The job's
// output is often on the storage of the run. If that storage hangs at the time limit, a process with the file
// open waits for it: at each line, and also when it starts a program such as scontrol, because the kernel
// writes a file's data before a close (Linux, nfs_file_flush()).
// If this process is killed, the other one still writes what is in the pipes. Terminals stay as they are.
class OutputRelay {
 public:
  OutputRelay();
  ~OutputRelay();  // waits until all is written, 10 s at most; later output is lost
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

 private:
  struct Writer {
    Child child;
    Fd end;  // a byte asks for the end
  };
  static std::optional<Writer> redirect(const std::vector<int>& streams);

  std::vector<Writer> writers_;
};

// The internal command that is the other process: from the first inherited descriptor to its standard output.
inline constexpr const char* kRelayOutput = "relay-output";
int run_relay_output();

}  // namespace rekindle::app
