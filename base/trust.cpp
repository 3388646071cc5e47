#include "base/trust.hpp"

#include <pwd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>

#include "base/text.hpp"

namespace rekindle {
namespace {

std::string user_name(uid_t user) {
  std::array<char, 4096> memory{};
  passwd entry{};
  passwd* found = nullptr;
  const bool known =
      ::getpwuid_r(user, &entry, memory.data(), memory.size(), &found) == 0 && found != nullptr;
  return known ? std::string(entry.pw_name) : str("number ", user);
}

bool has_access_list(int fd) { return fd >= 0 && ::fgetxattr(fd, "system.posix_acl_access", nullptr, 0) > 0; }

}  // namespace

bool others_own(const struct stat& info) { return info.st_uid != 0 && info.st_uid != ::geteuid(); }

bool others_can_write(const struct stat& info) {
  return !S_ISLNK(info.st_mode) && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;  // a link's mode has no effect
}

Status check_owner(int fd, const struct stat& info, const FilePath& path) {
  if (others_own(info)) {
    return fail(
        ExitCode::kConfig,
        str(path.string(), " belongs to user ", user_name(info.st_uid), ", who may change it at any time"),
        str("use a directory of your own, or copy this one (cp -r) and look at the copy with rekindle "
            "inspect --untrusted; if it is yours, let root give it back: chown -R ",
            user_name(::geteuid()), " ", path.string()));
  }
  if (!others_can_write(info)) return {};
  const bool others = (info.st_mode & S_IWOTH) != 0;
  const char* who = others ? "every user" : "other users (its group, or an access control list)";
  const char* list = has_access_list(fd) ? "setfacl -b " : nullptr;
  // Below a root, other files most often have the same modes, as in a copy: one command for all.
  const std::string mend = path.trust() == Trust::kNamed ? str("chmod go-w ", path.string())
                                                         : str("chmod -R go-w ", path.root().string());
  return fail(ExitCode::kConfig, str(path.string(), " can be changed by ", who),
              list != nullptr ? str(list, path.string(), " && ", mend) : mend);
}

Status check_own(const struct stat& made, const FilePath& path) {
  if (!others_own(made)) return {};
  return fail(ExitCode::kConfig,
              str(path.string(), " was made by user ", user_name(::geteuid()), ", and belongs to user ",
                  user_name(made.st_uid), ": this storage lets ", user_name(::geteuid()),
                  " own no files (root_squash?)"),
              "remove it, and run as the user who owns the folder above (docker --user, runAsUser)");
}

}  // namespace rekindle
