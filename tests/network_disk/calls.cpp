#include "calls.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <thread>

namespace rekindle::network_disk {
namespace {

struct OpenFile {
  int fd;
  std::atomic<int> unreported{0};  // what a write met
};

// Of the call that this thread serves.
Node& node() {
  auto& current = *static_cast<Node*>(fuse_get_context()->private_data);
  if (current.habits.slow.count() > 0) std::this_thread::sleep_for(current.habits.slow);
  return current;
}

OpenFile& file_of(fuse_file_info* info) {
  return *reinterpret_cast<OpenFile*>(info->fh);  // NOLINT: the interface is C's
}

int answer(int result) { return result < 0 ? -errno : 0; }

std::string at(const Node& node, const char* path) { return node.backing + path; }

// For calls on a name that should be there: what the node's own idea of it answers.
int misled(Node& node, const char* path) {
  const auto idea = node.names.wrong_idea(node.number, path);
  if (!idea) return 0;
  return *idea == Names::State::kUnknown ? -ENOENT : -ESTALE;
}

// For calls that make a name: the server knows, whatever the node thinks.
int made(Node& node, const char* path, int result) {
  const int error = errno;
  if (result >= 0) node.names.made(node.number, path);
  if (result < 0 && error == EEXIST) node.names.told(node.number, path);
  return result < 0 ? -error : 0;
}

int removed(Node& node, const char* path, int result) {
  const int error = errno;
  if (result >= 0) node.names.removed(node.number, path);
  return result < 0 ? -error : 0;
}

int get_attributes(const char* path, struct stat* out, fuse_file_info* info) {
  Node& here = node();
  if (info != nullptr) return answer(::fstat(file_of(info).fd, out));
  if (const int error = misled(here, path); error != 0) return error;
  return answer(::lstat(at(here, path).c_str(), out));
}

int read_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/,
                   fuse_file_info* /*info*/, fuse_readdir_flags /*flags*/) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  DIR* directory = ::opendir(at(here, path).c_str());
  if (directory == nullptr) return -errno;
  const std::filesystem::path parent(path);
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name(entry->d_name);
    if (here.names.wrong_idea(here.number, parent / name) != Names::State::kUnknown)
      fill(buffer, name.c_str(), nullptr, 0, fuse_fill_dir_flags());
  }
  ::closedir(directory);
  for (const std::string& name : here.names.ghosts(here.number, parent))
    fill(buffer, name.c_str(), nullptr, 0, fuse_fill_dir_flags());
  return 0;
}

int make_directory(const char* path, mode_t mode) {
  Node& here = node();
  return made(here, path, ::mkdir(at(here, path).c_str(), mode));
}

int make_node(const char* path, mode_t mode, dev_t device) {
  Node& here = node();
  return made(here, path, ::mknod(at(here, path).c_str(), mode, device));
}

int make_symlink(const char* target, const char* path) {
  Node& here = node();
  return made(here, path, ::symlink(target, at(here, path).c_str()));
}

int make_link(const char* from, const char* to) {
  Node& here = node();
  if (const int error = misled(here, from); error != 0) return error;
  return made(here, to, ::link(at(here, from).c_str(), at(here, to).c_str()));
}

int read_symlink(const char* path, char* buffer, size_t size) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  const ssize_t length = ::readlink(at(here, path).c_str(), buffer, size - 1);
  if (length < 0) return -errno;
  buffer[length] = '\0';
  return 0;
}

int remove_file(const char* path) {
  Node& here = node();
  return removed(here, path, ::unlink(at(here, path).c_str()));
}

int remove_directory(const char* path) {
  Node& here = node();
  return removed(here, path, ::rmdir(at(here, path).c_str()));
}

// A name that was there before, and is another file now, is no news: nodes look at what is behind it.
int rename_file(const char* from, const char* to, unsigned flags) {
  if (flags != 0) return -EINVAL;
  Node& here = node();
  if (const int error = misled(here, from); error != 0) return error;
  const bool replaces = ::access(at(here, to).c_str(), F_OK) == 0;
  if (::rename(at(here, from).c_str(), at(here, to).c_str()) != 0) return -errno;
  here.names.removed(here.number, from);
  if (!replaces) here.names.made(here.number, to);
  return 0;
}

int change_mode(const char* path, mode_t mode, fuse_file_info* /*info*/) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  return answer(::chmod(at(here, path).c_str(), mode));
}

int change_owner(const char* path, uid_t user, gid_t group, fuse_file_info* /*info*/) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  return answer(::lchown(at(here, path).c_str(), user, group));
}

int change_times(const char* path, const timespec times[2], fuse_file_info* /*info*/) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  return answer(::utimensat(AT_FDCWD, at(here, path).c_str(), times, AT_SYMLINK_NOFOLLOW));
}

int change_size(const char* path, off_t size, fuse_file_info* info) {
  Node& here = node();
  if (info != nullptr) return answer(::ftruncate(file_of(info).fd, size));
  if (const int error = misled(here, path); error != 0) return error;
  return answer(::truncate(at(here, path).c_str(), size));
}

int open_as(Node& here, const char* path, int flags, mode_t mode, fuse_file_info* info) {
  if ((flags & O_DIRECT) != 0) return -EINVAL;
  const int fd = ::open(at(here, path).c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  info->fh = reinterpret_cast<std::uint64_t>(new OpenFile{fd});  // NOLINT: the interface is C's
  return 0;
}

int open_file(const char* path, fuse_file_info* info) {
  Node& here = node();
  if (const int error = misled(here, path); error != 0) return error;
  return open_as(here, path, info->flags, 0, info);
}

int create_file(const char* path, mode_t mode, fuse_file_info* info) {
  Node& here = node();
  const bool was_there = ::access(at(here, path).c_str(), F_OK) == 0;
  const int error = open_as(here, path, info->flags | O_CREAT, mode, info);
  if (was_there)
    here.names.told(here.number, path);
  else if (error == 0)
    here.names.made(here.number, path);
  return error;
}

int read_file(const char* /*path*/, char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  node();
  const ssize_t length = ::pread(file_of(info).fd, buffer, size, offset);
  return length < 0 ? -errno : static_cast<int>(length);
}

// Whether it can be stored the server says later.
int write_file(const char* /*path*/, const char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  node();
  OpenFile& file = file_of(info);
  const ssize_t length = ::pwrite(file.fd, buffer, size, offset);
  if (length < static_cast<ssize_t>(size)) file.unreported = length < 0 ? errno : ENOSPC;
  return static_cast<int>(size);
}

int report(OpenFile& file) { return -file.unreported.exchange(0); }

int close_file(const char* /*path*/, fuse_file_info* info) {
  // The kernel then asks no more: NFS does not ask the server at a close that has nothing to write.
  if (node().habits.keeps_unchanged) return -ENOSYS;
  return report(file_of(info));
}

int sync_file(const char* /*path*/, int /*data_only*/, fuse_file_info* info) {
  return node().habits.tells_at_close ? 0 : report(file_of(info));
}

int forget_file(const char* /*path*/, fuse_file_info* info) {
  const std::unique_ptr<OpenFile> file(&file_of(info));
  ::close(file->fd);
  return 0;
}

int sync_directory(const char* path, int /*data_only*/, fuse_file_info* /*info*/) {
  return misled(node(), path);
}

int refuse_flock(const char* /*path*/, fuse_file_info* /*info*/, int /*operation*/) { return -ENOLCK; }
int refuse_lock(const char* /*path*/, fuse_file_info* /*info*/, int /*command*/, struct flock* /*lock*/) {
  return -ENOLCK;
}
int refuse_allocation(const char* /*path*/, int /*mode*/, off_t /*offset*/, off_t /*length*/,
                      fuse_file_info* /*info*/) {
  return -EOPNOTSUPP;
}

int tell_space(const char* /*path*/, struct statvfs* out) {
  return answer(::statvfs(node().backing.c_str(), out));
}

// What the kernel remembers is asked for again each time: the nodes' ideas are made up here.
void* begin(fuse_conn_info* /*connection*/, fuse_config* config) {
  config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
  config->use_ino = 1;  // all nodes see the same inode numbers
  config->auto_cache = node().habits.keeps_unchanged ? 1 : 0;
  return fuse_get_context()->private_data;
}

}  // namespace

fuse_operations calls() {
  fuse_operations all{};
  all.init = begin;
  all.getattr = get_attributes;
  all.readdir = read_directory;
  all.mkdir = make_directory;
  all.mknod = make_node;
  all.symlink = make_symlink;
  all.link = make_link;
  all.readlink = read_symlink;
  all.unlink = remove_file;
  all.rmdir = remove_directory;
  all.rename = rename_file;
  all.chmod = change_mode;
  all.chown = change_owner;
  all.utimens = change_times;
  all.truncate = change_size;
  all.open = open_file;
  all.create = create_file;
  all.read = read_file;
  all.write = write_file;
  all.flush = close_file;
  all.fsync = sync_file;
  all.release = forget_file;
  all.fsyncdir = sync_directory;
  all.flock = refuse_flock;
  all.lock = refuse_lock;
  all.fallocate = refuse_allocation;
  all.statfs = tell_space;
  return all;
}

}  // namespace rekindle::network_disk
