#include "process.hpp"

#include <csignal>

#include "base/text.hpp"
#include "world.hpp"

namespace rekindle::sim {

Ms Process::clock() const { return world_.engine().now() + world_.clock_ahead(host_); }

void Process::after(Ms delay, std::function<void()> what) {
  if (!alive_) return;
  world_.engine().after(delay, [this, what = std::move(what)]() mutable { arrive(std::move(what)); });
}

void Process::arrive(std::function<void()> what) {
  if (!alive_) return;
  if (suspended()) return waiting_.push_back(std::move(what));
  what();
}

void Process::suspend() {
  if (!alive_ || suspended_++ > 0) return;
  if (world_.logging()) world_.log(str(name_, " is suspended"));
}

void Process::resume() {
  if (!alive_ || --suspended_ > 0) return;
  if (world_.logging()) world_.log(str(name_, " continues"));
  for (auto& what : std::exchange(waiting_, {})) after(0, std::move(what));
}

void Process::kill() { end(true, SIGKILL); }
void Process::crash(int signal) { end(true, signal); }
void Process::exit(int code) { end(false, code); }

void Process::end(bool by_signal, int code) {
  if (!alive_) return;
  alive_ = false;
  waiting_.clear();
  if (world_.logging()) world_.log(str(name_, by_signal ? " dies of signal " : " exits with ", code));
  ended(by_signal, code);
}

void Fifo::send(Process& to, Ms delay, std::function<void()> what) {
  const Ms now = to.world().engine().now();
  last_ = std::max(last_, now + delay);
  to.after(last_ - now, std::move(what));
}

}  // namespace rekindle::sim
