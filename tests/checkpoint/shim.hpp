// Intercepts this program's libc calls on the files below one directory, makes the n-th call fail, and keeps
// a journal. One thread at a time.
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "journal.hpp"

namespace rekindle::checkpoint {

struct Fault {
  enum class Kind {
    kNone,
    kRefused,          // not done, and reported as failed
    kDoneButReported,  // done, but reported as failed: a network file system lost the answer
    kShort,            // half of the bytes are written or read
    kNothing,          // no byte is written, and no error is reported
    kStopped           // neither this call nor a later call has an effect: the process is dead
  };
  Kind kind = Kind::kNone;
  int error = EIO;
  bool lasting = false;  // all calls from the n-th on; then only calls that change something
};
std::string to_text(const Fault& fault);

class Shim {
 public:
  enum class Call {
    kLook,
    kOpen,
    kRead,
    kCreate,
    kMakeDirectory,
    kWrite,
    kSync,
    kClose,
    kRename,
    kLink,
    kRemove
  };

  explicit Shim(const std::filesystem::path& directory);
  ~Shim();
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;
  static Shim* active();

  // Storage without direct access, which reports this when O_DIRECT is set, or only at the first transfer.
  enum class NoDirect { kAtSwitch, kAtTransfer };
  void refuse_direct(NoDirect where) { no_direct_ = where; }
  bool refused_direct() const { return refused_direct_; }
  // Whether a call on a file below the directory is refused because of O_DIRECT; errno is then set.
  bool refuses_direct(NoDirect where, int fd, int flags);

  // Applies `fault` to the n-th call from now on that it can apply to; 0 is the next call.
  void arm(const Fault& fault, std::size_t n);
  void disarm() { fault_ = {}; }
  // Does this before the n-th call from now on: another process acts then.
  void interrupt(std::size_t n, std::function<void()> other) {
    other_ = std::move(other);
    until_other_ = n;
  }
  bool interrupted() const { return !other_; }
  bool struck() const { return !struck_call_.empty(); }
  const std::string& struck_call() const { return struck_call_; }  // the first call with the fault
  const Journal& journal() const { return journal_; }

  // The replacements of libc's functions while a shim exists. `real` is libc's; each returns -1 on failure.
  using Real = std::function<long()>;
  int open(int directory, const char* path, int flags, const Real& real);
  int close(int fd, const Real& real);
  void forget(int fd) { files_.erase(fd); }
  long transfer(Call call, int fd, std::uint64_t offset, void* bytes, std::size_t size,
                const std::function<long(std::size_t size)>& real);
  int sync(int fd, const Real& real);
  int rename(int from_directory, const char* from, int to_directory, const char* to, const Real& real);
  int link(int from_directory, const char* from, int to_directory, const char* to, const Real& real);
  int make_directory(int directory, const char* path, const Real& real);
  int remove(int directory, const char* path, const Real& real);
  int look(int directory, const char* path, const Real& real);
  bool refuses_look(int fd);  // sets errno

 private:
  struct File {
    Journal::Inode inode;
    std::filesystem::path name;
  };
  std::optional<std::filesystem::path> inside(int directory, const char* path) const;
  const File* file(int fd) const;
  Fault::Kind next(Call call, const std::filesystem::path& name);
  long pass(Call call, const std::filesystem::path& name, const Real& real,
            const std::function<void()>& note);

  const std::filesystem::path directory_;
  Journal journal_;
  std::map<int, File> files_;  // open files below the directory
  Fault fault_;
  std::size_t until_fault_ = 0, calls_ = 0;
  std::optional<NoDirect> no_direct_;
  bool refused_direct_ = false;
  std::string struck_call_;
  std::function<void()> other_;  // empty: none, or it has acted
  std::size_t until_other_ = 0;
};

}  // namespace rekindle::checkpoint
