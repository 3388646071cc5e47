#include "app/coordinator_child.hpp"

#include <csignal>
#include <utility>

#include "base/log.hpp"
#include "protocol/wire.hpp"

namespace rekindle::app {
namespace {

constexpr std::chrono::seconds kSuspended{3};  // if two checks are further apart, this process was suspended
constexpr int kMostCrashes = 8;                // in a row

}  // namespace

Status CoordinatorChild::start(const std::vector<std::string>& arguments) {
  started_ = last_message_ = Clock::now();
  up_ = hung_ = false;
  REKINDLE_TRY(process_, start_control(arguments));
  return {};
}

int CoordinatorChild::messages_fd() const {
  return process_ && process_->channel ? process_->channel->fd() : -1;
}
int CoordinatorChild::end_fd() const { return process_ ? process_->child.pidfd.get() : -1; }

void CoordinatorChild::send(const protocol::ToCoordinator& message) {
  if (!process_ || !process_->channel) return;
  if (auto sent = process_->channel->send(protocol::encode(message)); !sent) log_warning(sent.error().line());
}

Result<std::optional<protocol::ToSupervisor>> CoordinatorChild::receive() {
  auto text = process_->channel->receive();
  if (!text || !*text) {
    process_->channel.reset();
    return std::optional<protocol::ToSupervisor>();
  }
  last_message_ = Clock::now();
  REKINDLE_TRY(protocol::ToSupervisor message, protocol::decode<protocol::ToSupervisor>(**text));
  up_ = up_ || std::holds_alternative<protocol::CoordinatorUp>(message);
  return std::optional(std::move(message));
}

bool CoordinatorChild::kill_if_silent(Clock::duration limit) {
  const auto now = Clock::now();
  if (now - last_look_ > kSuspended) last_message_ = now;
  last_look_ = now;
  if (!process_ || now - last_message_ < limit) return false;
  kill_child(process_->child, SIGKILL);
  last_message_ = now;
  return !std::exchange(hung_, true);  // a process that waits for storage may not end
}

ExitStatus CoordinatorChild::reap() {
  const ExitStatus status = wait_for(process_->child);
  process_.reset();
  return status;
}

bool CoordinatorChild::schedule_restart(const ExitStatus& status) {
  // A coordinator that exited by itself probably lacks a disk or a port. A coordinator that another process
  // killed had no error.
  const bool well = !status.by_signal || (status.code == SIGKILL && !std::exchange(hung_, false));
  const auto pause = (well ? restarts_ : crashes_).next(started_);
  restart_at_ = Clock::now() + pause;
  return crashes_.crashes() <= kMostCrashes;
}

void CoordinatorChild::wait() {
  if (process_) wait_for(process_->child);
}

void CoordinatorChild::kill() {
  if (process_) kill_child(process_->child, SIGKILL), wait_for(process_->child);
  process_.reset();
}

}  // namespace rekindle::app
