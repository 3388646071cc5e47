#include "actors/trainer_group.hpp"

#include <poll.h>

#include <algorithm>
#include <csignal>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

// What the CPU libraries may use is pinned to what the run's first attempt had: other instructions, other
// bits.
std::vector<std::pair<std::string, std::string>> environment_of(const protocol::Job& job) {
  const std::string threads = str(job.threads);
  std::vector<std::pair<std::string, std::string>> environment = {{"OMP_NUM_THREADS", threads},
                                                                  {"MKL_NUM_THREADS", threads},
                                                                  {"MKL_DYNAMIC", "FALSE"},
                                                                  {"HDF5_USE_FILE_LOCKING", "FALSE"},
                                                                  {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}};
  if (job.cpu_capability == "avx512" || job.cpu_capability == "avx2") {
    const bool wide = job.cpu_capability == "avx512";
    environment.emplace_back("ATEN_CPU_CAPABILITY", job.cpu_capability);
    environment.emplace_back("ONEDNN_MAX_CPU_ISA", wide ? "AVX512_CORE" : "AVX2");
    environment.emplace_back("MKL_CBWR", wide ? "AVX512" : "AVX2");
  }
  return environment;
}

}  // namespace

Status TrainerGroup::start() {
  for (int i = 0; i < launch_.count; ++i) {
    const std::string name = str(launch_.worker, ".", i, "-", random_hex(3));
    REKINDLE_TRY(auto ends, Channel::pair());
    REKINDLE_TRY(Child child, spawn({launch_.program, "--run-dir", launch_.run_dir, "--name", name},
                                    environment_of(launch_.job), ends.second.get()));
    const std::scoped_lock lock(mutex_);
    started_ = true;
    members_.emplace(name, Member{std::move(child), std::make_shared<Channel>(std::move(ends.first)), true});
  }
  return {};
}

bool TrainerGroup::over() {
  const std::scoped_lock lock(mutex_);
  return started_ && members_.empty();
}

void TrainerGroup::send(const std::string& trainer, const std::string& message) {
  std::shared_ptr<Channel> channel;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = members_.find(trainer);
    if (found == members_.end()) return;
    channel = found->second.channel;
  }
  if (auto sent = channel->send(message); !sent) log_warning(str(trainer, ": ", sent.error().line()));
}

void TrainerGroup::drain(Member& member, const std::function<void(std::string)>& on_message) {
  auto text = member.channel->receive();
  if (text && *text) return on_message(std::move(**text));
  member.open = false;  // its end follows on the pidfd
}

void TrainerGroup::serve(int supervisor_fd, const std::function<void(std::string)>& on_message,
                         const std::function<void(const Ended&)>& on_end) {
  while (!members_.empty()) {
    std::vector<pollfd> waits{{supervisor_fd, POLLIN, 0}};
    std::vector<std::string> names;
    for (const auto& [name, member] : members_) {
      names.push_back(name);
      waits.push_back({member.open ? member.channel->fd() : -1, POLLIN, 0});
      waits.push_back({member.child.pidfd.get(), POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return kill_all();
    for (std::size_t i = 0; i < names.size(); ++i) {
      Member& member = members_.at(names[i]);
      if (waits[1 + 2 * i].revents != 0) {
        drain(member, on_message);
      } else if (waits[2 + 2 * i].revents != 0) {
        // Its last words have been read: the socket had nothing more.
        const ExitStatus status = wait_for(member.child);
        {
          const std::scoped_lock lock(mutex_);
          members_.erase(names[i]);
        }
        on_end({names[i], status});
      }
    }
  }
}

void TrainerGroup::kill_all() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, member] : members_) kill_child(member.child, SIGKILL);
  for (const auto& [name, member] : members_) wait_for(member.child);
  members_.clear();
}

}  // namespace rekindle::actors
