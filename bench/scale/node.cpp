#include "node.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"

namespace rekindle::bench {

using namespace protocol;

namespace {

constexpr std::int64_t kStepNs = 500'000'000;

// As large as a real address: the host's boot id, an address, a nonce.
Address address_of(int node, int trainer) {
  Address address;
  const std::string number = std::to_string(node);
  address.host = "5f8c2f6e-63b1-4f0e-9d0e-" + std::string(12 - number.size(), '0') + number;
  address.address = str("10.", 1 + node / 250, ".", node % 250, ".1");
  address.nonce = random_hex(16);
  address.pid = 10000 + node * 16 + trainer;
  address.control_fd = 5;
  address.port = static_cast<std::uint16_t>(40000 + trainer);
  return address;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Node::Node(const run::Layout& layout, const WorkerConfig& config, int number, Observer observer)
    : config_(config), number_(number), observer_(std::move(observer)), host_(layout, config, *this) {}

std::uint64_t Node::Trainer::step() const {
  return first_step + static_cast<std::uint64_t>((now_ns() - started_ns) / kStepNs);
}

void Node::say(const std::string& trainer, const FromTrainer& message) {
  host_.on_message(trainer, encode(message));
}

Status Node::start(const std::string& trainer) {
  int number = 0;
  {
    const std::scoped_lock lock(mutex_);
    number = static_cast<int>(trainers_.size());
    trainers_[trainer] = {};
  }
  const Address address = address_of(number_, number);
  say(trainer, TrainerReady{trainer, config_.host, "cpu", "{\"build\":\"bench\"}", address, address.pid});
  observer_("ready", {});
  return {};
}

void Node::send(const std::string& name, const std::string& message) {
  const auto json = nlohmann::json::parse(first_line(message));
  const auto type = json.at("type").get<std::string>();
  const std::scoped_lock lock(mutex_);
  const auto found = trainers_.find(name);
  if (found == trainers_.end()) return;
  Trainer& trainer = found->second;
  if (type == "quit") {
    trainers_.erase(found);
    return host_.on_end(name, {false, 0});
  }
  const auto generation = json.at("body").at("generation").get<GenerationId>();
  if (type == "start") {
    const Start start = json.at("body").get<Start>();
    trainer = {generation, start.rank, true, start.step, trainer.beats, start.step, now_ns()};
    observer_("started", generation);
  } else if (type == "abort" && trainer.running && generation == trainer.generation) {
    observer_("aborted", generation);
    trainer.running = false;
    say(name, Paused{generation, name, true, trainer.step(), PauseReason::kAborted, -1, {}, ""});
  }
}

void Node::kill(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (trainers_.erase(name) > 0) host_.on_end(name, {true, SIGKILL});
}

void Node::leave(int exit_code) { ::_exit(exit_code); }

void Node::beat() {
  const std::scoped_lock lock(mutex_);
  for (auto& [name, trainer] : trainers_) {
    const std::uint64_t step = trainer.running ? trainer.step() : trainer.first_step;
    const TrainerPhase phase = trainer.running ? TrainerPhase::kComputing : TrainerPhase::kIdle;
    say(name, TrainerBeat{name, phase, trainer.generation, step, ++trainer.beats, -1, 4ULL << 30});
    if (!trainer.running || trainer.rank != 0 || step == trainer.reported_step) continue;
    trainer.reported_step = step;
    say(name,
        StepDone{trainer.generation, step, 0, 2.3, {{"accuracy", 0.1}}, 0.001, 8192, 0, 400, 50, 50, 0, 500});
  }
}

}  // namespace rekindle::bench
