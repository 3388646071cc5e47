#include <thread>

#include "calls.hpp"

namespace rekindle::network_disk {

struct Mount::Serving {
  Node node;
  fuse* session = nullptr;
  std::thread thread{};
};

Mount::Mount(int number, const std::filesystem::path& backing, const std::filesystem::path& where,
             Names& names, const Habits& habits)
    : serving_(new Serving{{number, backing.string(), names, habits}}) {
  const fuse_operations all = calls();
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  fuse_opt_add_arg(&arguments, "network_disk");
  fuse* session = fuse_new(&arguments, &all, sizeof all, &serving_->node);
  fuse_opt_free_args(&arguments);
  if (session == nullptr) return;
  if (fuse_mount(session, where.c_str()) != 0) {
    fuse_destroy(session);
    return;
  }
  serving_->session = session;
  serving_->thread = std::thread([session] { fuse_loop_mt(session, 0); });
}

bool Mount::mounted() const { return serving_->session != nullptr; }

Mount::~Mount() {
  if (!mounted()) return;
  fuse_exit(serving_->session);
  fuse_unmount(serving_->session);
  serving_->thread.join();
  fuse_destroy(serving_->session);
}

}  // namespace rekindle::network_disk
