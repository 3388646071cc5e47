#include "shim.hpp"

#include <fcntl.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

using Call = Shim::Call;
using Kind = Fault::Kind;

constexpr std::size_t kMostCalls = 100000;  // so that an endless loop fails the test instead of blocking it

Shim* the_active = nullptr;  // global, because libc's functions cannot find the shim in another way

const char* name_of(Call call) {
  constexpr std::array kNames = {"look", "open",  "read",   "create", "mkdir", "write",
                                 "sync", "close", "rename", "link",   "remove"};
  return kNames.at(static_cast<std::size_t>(call));
}

bool changes(Call call) {
  return call != Call::kLook && call != Call::kOpen && call != Call::kRead && call != Call::kClose;
}

bool concerns(const Fault& fault, Call call) {
  if (fault.lasting && !changes(call)) return false;
  switch (fault.kind) {
    case Kind::kNone:
      return false;
    case Kind::kDoneButReported:
      return changes(call) && call != Call::kCreate && call != Call::kWrite;
    case Kind::kShort:
      return call == Call::kWrite || call == Call::kRead;
    case Kind::kNothing:
      return call == Call::kWrite;
    case Kind::kStopped:
      return changes(call);
    case Kind::kRefused:
      if (fault.error == ENOSPC) return call == Call::kClose || (changes(call) && call != Call::kRemove);
      if (fault.error == EINTR)
        return call == Call::kOpen || call == Call::kCreate || call == Call::kRead || call == Call::kWrite ||
               call == Call::kSync;
      return true;
  }
  return false;
}

}  // namespace

std::string to_text(const Fault& fault) {
  constexpr std::array kNames = {"no fault", "refused", "done but reported", "short", "nothing", "stopped"};
  return str(kNames.at(static_cast<std::size_t>(fault.kind)), ", ", std::strerror(fault.error),
             fault.lasting ? ", from then on" : "");
}

Shim::Shim(const fs::path& directory) : directory_(directory), journal_(directory) {
  if (the_active != nullptr) std::abort();
  the_active = this;
}

Shim::~Shim() { the_active = nullptr; }

Shim* Shim::active() { return the_active; }

void Shim::arm(const Fault& fault, std::size_t n) {
  fault_ = fault;
  until_fault_ = n;
  struck_call_.clear();
}

bool Shim::refuses_direct(NoDirect where, int fd, int flags) {
  if (no_direct_ != where || (flags & O_DIRECT) == 0) return false;
  if (file(fd) == nullptr) return false;
  refused_direct_ = true;
  errno = EINVAL;
  return true;
}

// The name of a path relative to the directory; nullopt if the path is not below it.
std::optional<fs::path> Shim::inside(int directory, const char* path) const {
  if (path[0] != '/' && directory != AT_FDCWD) {
    const File* parent = file(directory);
    if (parent == nullptr) return std::nullopt;
    return parent->name / path;
  }
  const fs::path name = fs::path(path).lexically_relative(directory_);
  if (name.empty() || *name.begin() == "..") return std::nullopt;
  return name == "." ? fs::path() : name;
}

const Shim::File* Shim::file(int fd) const {
  const auto found = files_.find(fd);
  return found == files_.end() ? nullptr : &found->second;
}

Kind Shim::next(Call call, const fs::path& name) {
  if (++calls_ > kMostCalls) {
    std::fprintf(stderr, "more than %zu calls; the last: %s %s\n", kMostCalls, name_of(call), name.c_str());
    std::abort();
  }
  if (other_ && until_other_-- == 0) std::exchange(other_, {})();
  if (fault_.kind == Kind::kStopped && struck()) return Kind::kStopped;
  if (!concerns(fault_, call)) return Kind::kNone;
  if (until_fault_ > 0) {
    --until_fault_;
    return Kind::kNone;
  }
  if (struck() && !fault_.lasting) return Kind::kNone;
  if (!struck()) struck_call_ = str(name_of(call), " ", name.string());
  return fault_.kind;
}

// Calls `real` and, if that worked, `note`, as far as the fault allows.
long Shim::pass(Call call, const fs::path& name, const Real& real, const std::function<void()>& note) {
  const Kind kind = next(call, name);
  if (kind == Kind::kRefused || kind == Kind::kStopped) {
    errno = kind == Kind::kStopped ? EIO : fault_.error;
    return -1;
  }
  const long result = real();
  if (result < 0) return result;
  const int before = errno;
  note();
  errno = before;
  if (kind != Kind::kDoneButReported) return result;
  errno = fault_.error;
  return -1;
}

int Shim::open(int directory, const char* path, int flags, const Real& real) {
  const auto name = inside(directory, path);
  const bool creates = (flags & O_CREAT) != 0;
  long fd = -1;
  if (!name) {
    fd = real();
    if (fd >= 0) forget(static_cast<int>(fd));
    return static_cast<int>(fd);
  }
  fd = pass(creates ? Call::kCreate : Call::kOpen, *name, real, [&] {
    const auto found = journal_.find(*name);
    if (!found && !creates) std::abort();  // created by a call that the shim does not intercept
    if (!found) {
      journal_.create(*name, false);
    } else if ((flags & O_TRUNC) != 0) {
      journal_.truncate(*found);
    }
  });
  if (fd >= 0) files_[static_cast<int>(fd)] = {*journal_.find(*name), *name};
  return static_cast<int>(fd);
}

int Shim::close(int fd, const Real& real) {
  const File* closed = file(fd);
  if (closed == nullptr) return static_cast<int>(real());
  const Kind kind = next(Call::kClose, closed->name);
  forget(fd);
  const long result = real();  // always, because Linux frees the descriptor even if close() fails
  if (kind == Kind::kNone) return static_cast<int>(result);
  errno = fault_.error;
  return -1;
}

long Shim::transfer(Call call, int fd, std::uint64_t offset, void* bytes, std::size_t size,
                    const std::function<long(std::size_t size)>& real) {
  const File* used = file(fd);
  if (used == nullptr) return real(size);
  const Kind kind = next(call, used->name);
  if (kind == Kind::kNothing) return 0;
  if (kind == Kind::kRefused || kind == Kind::kStopped) {
    errno = kind == Kind::kStopped ? EIO : fault_.error;
    return -1;
  }
  const long done = real(kind == Kind::kShort ? (size + 1) / 2 : size);
  if (call == Call::kWrite && done > 0)
    journal_.write(used->inode, offset,
                   {static_cast<const std::byte*>(bytes), static_cast<std::size_t>(done)});
  return done;
}

// Does not call libc: the journal decides which data survive, and the tests are faster.
int Shim::sync(int fd, const Real& real) {
  const File* synced = file(fd);
  if (synced == nullptr) return static_cast<int>(real());
  const Kind kind = next(Call::kSync, synced->name);
  const bool interrupted = kind == Kind::kRefused && fault_.error == EINTR;
  if (kind != Kind::kStopped && !interrupted) journal_.sync(synced->inode, kind == Kind::kRefused);
  if (kind == Kind::kNone) return 0;
  errno = kind == Kind::kStopped ? EIO : fault_.error;
  return -1;
}

int Shim::rename(int from_directory, const char* from, int to_directory, const char* to, const Real& real) {
  const auto old_name = inside(from_directory, from), new_name = inside(to_directory, to);
  if (!old_name || !new_name) return static_cast<int>(real());
  return static_cast<int>(
      pass(Call::kRename, *new_name, real, [&] { journal_.rename(*old_name, *new_name); }));
}

int Shim::link(int from_directory, const char* from, int to_directory, const char* to, const Real& real) {
  const auto old_name = inside(from_directory, from), new_name = inside(to_directory, to);
  if (!old_name || !new_name) return static_cast<int>(real());
  return static_cast<int>(pass(Call::kLink, *new_name, real, [&] { journal_.link(*old_name, *new_name); }));
}

int Shim::make_directory(int directory, const char* path, const Real& real) {
  const auto name = inside(directory, path);
  if (!name) return static_cast<int>(real());
  return static_cast<int>(pass(Call::kMakeDirectory, *name, real, [&] { journal_.create(*name, true); }));
}

int Shim::remove(int directory, const char* path, const Real& real) {
  const auto name = inside(directory, path);
  if (!name) return static_cast<int>(real());
  return static_cast<int>(pass(Call::kRemove, *name, real, [&] { journal_.remove(*name); }));
}

int Shim::look(int directory, const char* path, const Real& real) {
  const auto name = inside(directory, path);
  if (!name) return static_cast<int>(real());
  return static_cast<int>(pass(Call::kLook, *name, real, [] {}));
}

bool Shim::refuses_look(int fd) {
  const File* seen = file(fd);
  return seen != nullptr && pass(
                                Call::kLook, seen->name, [] { return 0; }, [] {}) < 0;
}

}  // namespace rekindle::checkpoint
