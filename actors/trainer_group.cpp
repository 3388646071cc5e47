#include "actors/trainer_group.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <system_error>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "protocol/trainer_environment.hpp"
#include "protocol/trainer_name.hpp"

namespace rekindle::actors {
namespace {

// How often a watch thread checks whether it must stop.
constexpr std::chrono::milliseconds kLook{200};

// NCCL wants the name of the interface, where this program also takes an address or the beginning of a name.
std::string interface_name(const std::string& wanted) {
  if (wanted.empty()) return "";  // trainer_environment() takes loopback then
  const auto chosen = choose_interface(interfaces(), wanted);
  return chosen ? chosen->name : wanted;
}

bool poke(const Fd& eventfd) {
  const std::uint64_t one = 1;
  return ::write(eventfd.get(), &one, sizeof one) == sizeof one;
}

}  // namespace

TrainerGroup::TrainerGroup(TrainerLaunch launch)
    : launch_(std::move(launch)), changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  auto made =
      protocol::trainer_environment(own_environment(), launch_.job, interface_name(launch_.job.interface));
  command_.job = launch_.job;
  command_.first_local_rank = launch_.number * static_cast<int>(launch_.job.trainers_per_worker);
  const std::string run_dir = launch_.layout.root().string();
  command_.run = hex64(hash64(std::as_bytes(std::span(run_dir))));
  command_.arguments = launch_.layout.options();
  command_.arguments.insert(command_.arguments.end(),
                            {"--interface", launch_.job.interface, "--port-range", launch_.job.port_range});
  command_.environment =
      is_script(launch_.job) ? with_python_package(std::move(made.entries)) : std::move(made.entries);
  if (is_script(launch_.job)) spare_.emplace(command_);
  for (const std::string& line : made.warnings) log_warning(line);
}

Status TrainerGroup::start(const std::string& trainer) {
  if (launch_.refusal) return forward_error(*launch_.refusal);
  const std::scoped_lock lock(mutex_);
  starts_.push_back(trainer);
  if (!poke(changed_)) return fail("eventfd: no trainer can be started");
  return {};
}

// In the thread of serve(): the kernel kills a trainer when the thread that started it ends.
void TrainerGroup::launch_due(const Listener& listener) {
  std::vector<std::string> due;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(starts_, [&](const std::string& next) {
      if (dying_in_place_of(next)) return false;
      due.push_back(next);
      return true;
    });
  }
  for (const std::string& next : due) {
    const Status launched = launch(next);
    if (launched) continue;
    log_error(launched.error().line());
    listener.on_end(next, {false, static_cast<int>(launched.error().code)});
  }
}

bool TrainerGroup::dying_in_place_of(const std::string& trainer) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& one) {
    return one.second.reported && protocol::slot_of(one.first) == protocol::slot_of(trainer);
  });
}

Status TrainerGroup::launch(const std::string& trainer) {
  auto spare = spare_ ? spare_->take(trainer) : std::nullopt;
  auto process = spare ? Result<TrainerProcess>(std::move(*spare)) : start_trainer(command_, trainer);
  if (!process) return forward_error(process.error());
  if (spare_) spare_->postpone();
  const std::scoped_lock lock(mutex_);
  members_.emplace(trainer,
                   Member{std::move(process->child), std::make_shared<Channel>(std::move(process->socket)),
                          std::make_unique<Watch>(std::move(process->line))});
  return {};
}

std::shared_ptr<Channel> TrainerGroup::channel_of(const std::string& trainer) {
  const std::scoped_lock lock(mutex_);
  const auto found = members_.find(trainer);
  return found == members_.end() ? nullptr : found->second.channel;
}

void TrainerGroup::send(const std::string& trainer, const std::string& message) {
  const auto channel = channel_of(trainer);
  if (!channel) return;
  if (auto sent = channel->send(message); !sent) {
    log_warning(str(trainer, ": ", sent.error().line()));
    kill(trainer);  // the trainer is dead, or suspended with half an order
  }
}

void TrainerGroup::kill(const std::string& trainer) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = members_.find(trainer); found != members_.end())
    kill_child(found->second.child, SIGKILL);
  if (std::erase(starts_, trainer) > 0) {
    never_started_.push_back(trainer);
    poke(changed_);
  }
}

std::vector<TrainerGroup::Watched> TrainerGroup::watched() {
  const std::scoped_lock lock(mutex_);
  std::vector<Watched> all;
  for (const auto& [name, member] : members_)
    all.push_back(
        {name, member.channel, member.child.pidfd.get(), member.open, member.watch->cut && !member.reported});
  return all;
}

void TrainerGroup::serve(int until_fd, const Listener& listener) {
  for (;;) {
    const std::vector<Watched> all = watched();
    std::vector<pollfd> waits{{until_fd, POLLIN, 0}, {changed_.get(), POLLIN, 0}};
    for (const Watched& one : all) {
      waits.push_back({one.open ? one.channel->fd() : -1, POLLIN, 0});
      waits.push_back({one.pidfd, POLLIN, 0});
    }
    const bool dying = std::any_of(all.begin(), all.end(), [](const Watched& one) { return one.dying; });
    const int limit = spare_ && !all.empty() ? spare_->look() : -1;
    if (::poll(waits.data(), waits.size(), dying ? 0 : limit) < 0) continue;
    if (waits[0].revents != 0) return;
    std::uint64_t starts = 0;
    if (waits[1].revents != 0 && ::read(changed_.get(), &starts, sizeof starts) < 0) continue;
    report_never_started(listener);
    launch_due(listener);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (waits[2 + 2 * i].revents != 0) {
        auto text = all[i].channel->receive();
        if (text && *text) {
          watch(all[i].trainer);
          listener.on_message(all[i].trainer, std::move(**text));
          continue;
        }
        const std::scoped_lock lock(mutex_);
        const auto found = members_.find(all[i].trainer);
        if (found != members_.end()) found->second.open = false;  // the pidfd reports the trainer's end
      } else if (waits[3 + 2 * i].revents != 0) {
        reap(all[i].trainer, listener);  // all its messages have been read: the socket is empty
      } else if (all[i].dying) {
        report_death(all[i].trainer, listener);  // all its messages have been read, as above
      }
    }
  }
}

void TrainerGroup::watch(const std::string& trainer) {
  const std::scoped_lock lock(mutex_);
  const auto found = members_.find(trainer);
  if (found == members_.end() || found->second.watch->waiting.joinable()) return;
  Watch& watch = *found->second.watch;
  try {
    watch.waiting = std::jthread([this, &watch](const std::stop_token& stop) {
      while (!stop.stop_requested() && !watch.cut) watch.cut = watch.line.wait_until_cut(kLook);
      poke(changed_);
    });
  } catch (const std::system_error& error) {
    log_warning(str(trainer, ": no thread to watch it with: ", error.what()));  // the pidfd reports the end
  }
}

void TrainerGroup::report_death(const std::string& trainer, const Listener& listener) {
  std::optional<ExitStatus> status;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = members_.find(trainer);
    if (found == members_.end()) return;
    status = status_of_dying(found->second.child);
    found->second.reported = status.has_value();
    if (!status) found->second.watch->cut = false;  // the pidfd reports the end
  }
  if (status) listener.on_end(trainer, *status);
}

void TrainerGroup::reap(const std::string& trainer, const Listener& listener) {
  ExitStatus status;
  std::map<std::string, Member>::node_type gone;  // destroyed unlocked: this joins the watch thread
  {
    const std::scoped_lock lock(mutex_);
    const auto found = members_.find(trainer);
    if (found == members_.end()) return;  // this process is exiting
    status = wait_for(found->second.child);
    gone = members_.extract(found);
  }
  if (!gone.mapped().reported) listener.on_end(trainer, status);
  launch_due(listener);
}

void TrainerGroup::report_never_started(const Listener& listener) {
  std::vector<std::string> names;
  {
    const std::scoped_lock lock(mutex_);
    names.swap(never_started_);
  }
  for (const std::string& name : names) listener.on_end(name, {true, SIGKILL});
}

void TrainerGroup::leave(int exit_code) {
  kill_all();
  if (launch_.keeper != nullptr) launch_.keeper->before_leaving();
  ::_exit(exit_code);  // no orderly teardown: other threads may be anywhere
}

void TrainerGroup::kill_all() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, member] : members_) kill_child(member.child, SIGKILL);
  for (const auto& [name, member] : members_) wait_for(member.child);
  members_.clear();
}

}  // namespace rekindle::actors
