#include "actors/trainer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <span>
#include <string_view>
#include <utility>

#include "base/channel.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/memory_left.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "protocol/trainer_environment.hpp"

namespace rekindle::actors {
namespace {

// A trainer reads its orders at once, in each state. A suspended trainer must not block its worker.
constexpr timeval kOrderLimit{3, 0};

// From the last start of a trainer to that of a spare, which would slow the first steps.
constexpr std::chrono::seconds kPause{10};

// A spare may take memory if a quarter of it is left. In want of memory, the kernel ends the spare first.
constexpr std::uint64_t kShareLeft = 4;

struct Connection {
  Fd socket, trainers_end;
  Lifeline line;
};

Result<Connection> connect() {
  REKINDLE_TRY(auto ends, Channel::pair());
  ::setsockopt(ends.first.get(), SOL_SOCKET, SO_SNDTIMEO, &kOrderLimit, sizeof kOrderLimit);
  REKINDLE_TRY(Lifeline line, Lifeline::make());
  return Connection{std::move(ends.first), std::move(ends.second), std::move(line)};
}

// Its stdin is empty. The worker's own is a terminal, or, in a container and under Slurm, what its supervisor
// holds: an interpreter that reads from either waits for ever.
Result<Child> start_interpreter(const std::vector<std::string>& argv, std::vector<std::string> environment,
                                std::span<const int> inherited) {
  REKINDLE_TRY(const Fd nothing, open_file("/dev/null", O_RDONLY));
  Streams streams;
  streams.in = nothing.get();
  return spawn_with(argv, std::move(environment), inherited, streams);
}

constexpr std::string_view kVisibleGpus = "CUDA_VISIBLE_DEVICES=";

// The variables of this trainer alone. A trainer's name is "WORKER.SLOT-N" (protocol/worker.cpp).
std::vector<std::string> own_variables(const TrainerCommand& command, const std::string& name) {
  const std::size_t dot = name.rfind('.'), dash = name.rfind('-');
  int slot = 0;
  if (dot != std::string::npos && dash != std::string::npos && dot < dash)
    std::from_chars(name.data() + dot + 1, name.data() + dash, slot);
  const int number = command.first_local_rank + slot;
  std::vector<std::string> own = {str("LOCAL_RANK=", number), "REKINDLE_RUN=" + command.run};
  for (const std::string& entry : command.environment) {
    if (!entry.starts_with(kVisibleGpus)) continue;
    const std::string all = entry.substr(kVisibleGpus.size());
    own.push_back(str(kVisibleGpus, protocol::visible_gpu(all, number)));
  }
  return own;
}

}  // namespace

Result<TrainerProcess> start_trainer(const TrainerCommand& command, const std::string& name) {
  REKINDLE_TRY(Connection connection, connect());
  const std::array inherited = {connection.trainers_end.get(), connection.line.fd()};
  std::vector<std::string> arguments = command.arguments;
  arguments.insert(arguments.end(), {"--name", name});
  std::vector<std::string> environment = command.environment;
  const std::vector<std::string> own = own_variables(command, name);
  for (const std::string& variable : own) {
    const std::string begin = variable.substr(0, variable.find('=') + 1);
    std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(begin); });
  }
  environment.insert(environment.end(), own.begin(), own.end());
  if (!is_script(command.job)) {
    REKINDLE_TRY(Child child, start_program_with(kTrainerProgram, arguments, environment, inherited));
    return TrainerProcess{std::move(child), std::move(connection.socket), std::move(connection.line)};
  }
  std::vector<std::string> argv = task::python_trainer(command.job.task);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  REKINDLE_TRY(Child child, start_interpreter(argv, environment, inherited));
  return TrainerProcess{std::move(child), std::move(connection.socket), std::move(connection.line)};
}

SpareTrainer::~SpareTrainer() {
  if (!spare_) return;
  kill_child(spare_->process.child, SIGKILL);
  wait_for(spare_->process.child);
}

void SpareTrainer::postpone() { due_ = boot_time() + kPause; }

Result<SpareTrainer::Spare> SpareTrainer::start() const {
  REKINDLE_TRY(Connection connection, connect());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail("pipe: no spare trainer can be started");
  const Fd name_there(ends[0]);
  Fd name(ends[1]);
  std::vector<std::string> argv = task::python_trainer(command_.job.task);
  argv.insert(argv.end(), {"--spare", command_.job.task.script_folder});
  argv.insert(argv.end(), command_.arguments.begin(), command_.arguments.end());
  const std::array inherited = {connection.trainers_end.get(), connection.line.fd(), name_there.get()};
  REKINDLE_TRY(Child child, start_interpreter(argv, command_.environment, inherited));
  return Spare{{std::move(child), std::move(connection.socket), std::move(connection.line)}, std::move(name)};
}

void SpareTrainer::bury() {
  if (!spare_) return;
  pollfd dead{spare_->process.child.pidfd.get(), POLLIN, 0};
  if (::poll(&dead, 1, 0) != 1) return;
  wait_for(spare_->process.child);
  spare_.reset();
  postpone();
}

int SpareTrainer::look() {
  bury();
  if (spare_) return -1;
  const auto left = due_ - boot_time();
  if (left.count() > 0) return static_cast<int>(left.count()) + 1;
  postpone();
  if (const MemoryLeft memory = memory_left(); memory.bytes >= memory.of / kShareLeft) {
    auto started = start();
    if (started) {
      spare_.emplace(std::move(*started));
      return -1;
    }
    log_warning(started.error().line());
  }
  return static_cast<int>(std::chrono::milliseconds(kPause).count());
}

std::optional<TrainerProcess> SpareTrainer::take(const std::string& name) {
  bury();
  if (!spare_) return std::nullopt;
  Spare spare = std::move(*spare_);
  spare_.reset();
  std::string lines = str(name, "\n");
  for (const std::string& variable : own_variables(command_, name)) lines += variable + "\n";
  if (::write(spare.name.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()))
    return std::move(spare.process);
  kill_child(spare.process.child, SIGKILL);
  wait_for(spare.process.child);
  return std::nullopt;
}

}  // namespace rekindle::actors
