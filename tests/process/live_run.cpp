#include "live_run.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {

void LiveRun::TearDown() {
  program_.reset();
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

std::string LiveRun::log() const {
  const auto text = read_text(run::Layout(dir()).log("coordinator"));
  return text ? *text : "";
}

int LiveRun::times_logged(const std::string& words) const { return static_cast<int>(times_in(log(), words)); }

std::string LiveRun::trainer_logs() const {
  std::string all;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run::Layout(dir()).logs().path(), none)) {
    if (!entry.path().filename().string().starts_with("trainer-")) continue;
    if (const auto text = read_text(entry.path())) all += *text;
  }
  return all;
}

std::string LiveRun::name_of(pid_t trainer) {
  const std::string words = command_line(trainer), option = std::string("--name") + '\0';
  const std::size_t at = words.find(option);
  if (at == std::string::npos) return "";
  return words.substr(at + option.size(), words.find('\0', at + option.size()) - at - option.size());
}

std::optional<fs::path> LiveRun::unfinished_checkpoint() const {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(dir() / "checkpoints", code)) {
    if (!fs::exists(entry.path() / "manifest.json")) return entry.path();
  }
  return std::nullopt;
}

void LiveRun::begin(int workers, const Arguments& more, const Arguments& prefix) {
  program_.emplace(prefix + Arguments{rekindle()} + mnist_run(dir(), workers, 1000000) + more);
  wait_for_step(5);
}

void LiveRun::wait_for_step(std::uint64_t step) {
  ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= step || !program_->running(); })) << log();
  ASSERT_TRUE(program_->running()) << program_->wait().err;
}

void LiveRun::wait_for_log(const std::string& words, int times) {
  ASSERT_TRUE(eventually([&] { return times_logged(words) >= times || !program_->running(); }))
      << words << "\n"
      << log();
  ASSERT_GE(times_logged(words), times) << words << "\n" << log();
}

void LiveRun::stop_and_compare() {
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome outcome = program_->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  finish_and_compare();
}

void LiveRun::finish_and_compare() {
  const int steps = common_steps_after(reached_step(dir()));
  const Outcome finished = run(mnist_run(dir(), 2, steps));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
}

}  // namespace rekindle::process_test
