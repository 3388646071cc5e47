#include "app/slurm_job.hpp"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "app/places.hpp"
#include "app/prepare.hpp"
#include "app/report.hpp"
#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/link_speed.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "slurm/commands.hpp"
#include "slurm/preflight.hpp"
#include "slurm/programs.hpp"

namespace rekindle::app {

namespace {

// The address at which each node's trainers listen: the address that Slurm uses for the node.
Result<std::vector<std::string>> listen_addresses(const SlurmJob& job) {
  using Names = std::map<std::string, std::string>;
  const auto ask = [&]() -> Result<Names> {
    auto found = slurm::node_addresses(job.environment.node_list);
    // With PrivateData=nodes, Slurm tells nobody, now or later; the nodes' names have to do.
    if (!found && found.error().what.find("denied") != std::string::npos) return Names();
    return found;
  };
  auto names = patiently(job.answer_within(), ask).value_or(Names());
  std::vector<std::string> addresses;
  for (const std::string& node : job.nodes) {
    const std::string name = names[node].empty() ? node : names[node];
    // When many nodes start at once, a name server may be busy.
    constexpr std::chrono::seconds kNameServer{30};
    REKINDLE_TRY(const std::string address, patiently(kNameServer, [&] { return resolve(name); }));
    addresses.push_back(address);
  }
  // Many hosts resolve their own name to a loopback address, which other hosts cannot reach.
  const auto other = std::find_if_not(addresses.begin(), addresses.end(), is_loopback);
  if (other == addresses.end()) return addresses;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!is_loopback(addresses[i])) continue;
    if (job.nodes[i] != job.environment.node)
      return fail(ExitCode::kConfig,
                  str("on this node, the name of node ", job.nodes[i], " resolves to ", addresses[i],
                      ", an address that no other node reaches"),
                  "add --interface NAME");
    REKINDLE_TRY(addresses[i], address_towards(*other));
  }
  return addresses;
}

// Written now, because later the disk may be full or the controller away.
void keep_script(const LocalOptions& options, const SlurmJob& job, const std::optional<std::string>& script) {
  const std::filesystem::path from = job.environment.submit_directory;
  if (!from.empty() && !is_folder(from))
    say(str("warning: this node has not the folder ", from.string(),
            ", from which this job was submitted: the job of --on-limit resubmit begins in ",
            std::filesystem::current_path().string()));
  const FilePath path = options.layout().resubmit_script();
  const Status kept =
      script ? replace_file(path, *script, 0700) : fail("Slurm does not show the job's script");
  if (!kept) say(str("warning: --on-limit resubmit will fail: ", kept.error().line()));
}

// Measures the bytes a second that become durable in `directory`; 0 if the write fails.
double write_speed(const std::filesystem::path& directory) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const FilePath path = temporary_beside(directory / "probe");
  // Storage that compresses writes zeros at once.
  std::vector<std::byte> bytes(kBytes);
  std::mt19937_64 random;  // NOLINT(cert-msc51-cpp): any numbers will do
  for (std::size_t at = 0; at < kBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t number = random();
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
  const auto began = std::chrono::steady_clock::now();
  auto file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const bool written = file && write_all(file->get(), path, 0, bytes) && sync_file(file->get(), path);
  std::ignore = remove_file(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  return written ? static_cast<double>(kBytes) / seconds.count() : 0;
}

}  // namespace

std::uint64_t signal_lead_of(const LocalOptions& options, bool looks_only) {
  constexpr double kUsual = 2e8;  // bytes a second
  return slurm::signal_lead(options.state_bytes,
                            looks_only ? kUsual : write_speed(existing_part(options.run_dir)));
}

void add_slurm_options(CLI::App& command, SlurmOptions& options) {
  command
      .add_option("--on-limit", options.on_limit,
                  "at the time limit and when preempted: requeue, resubmit or exit")
      ->capture_default_str()
      ->check(CLI::IsMember({"requeue", "resubmit", "exit"}));
  command
      .add_option("--requeue-within", options.requeue_within,
                  "how long to ask a Slurm that does not answer, with a unit")
      ->capture_default_str();
}

std::string expand_in_job(const std::string& name, const std::string& value) {
  const auto environment = slurm::read_environment();
  return environment && name != kHook ? slurm::expand_pattern(value, *environment) : value;
}

LocalOptions unresolved_options(const std::filesystem::path& run_dir) {
  LocalOptions options;
  options.run_dir = run_dir;
  // A request that came just now is obeyed by the next attempt (SlurmLog::stop_was_missed).
  options.old_stop = stop_request_in(run_dir);
  options.job.launched_by = "slurm";
  return options;
}

Result<OnLimit> check_slurm_options(const SlurmOptions& how) {
  REKINDLE_CHECK(parse_duration("--requeue-within", how.requeue_within));
  return how.on_limit == "exit"       ? OnLimit::kExit
         : how.on_limit == "resubmit" ? OnLimit::kResubmit
                                      : OnLimit::kRequeue;
}

Result<SlurmJob> this_job(const SlurmOptions& how) {
  SlurmJob job;
  REKINDLE_TRY(job.on_limit, check_slurm_options(how));
  job.from_scratch = how.from_scratch;
  REKINDLE_TRY(job.requeue_within, parse_duration("--requeue-within", how.requeue_within));
  REKINDLE_TRY(job.environment, slurm::read_environment());
  // Missing programs are an error at once: waiting for --requeue-within would not help.
  REKINDLE_CHECK(slurm::check_programs(slurm::programs_of_a_job(job.on_limit == OnLimit::kResubmit)));
  return job;
}

Status complete_job(SlurmJob& job, LocalOptions& options) {
  REKINDLE_TRY(job.nodes, patiently(job.answer_within(),
                                    [&] { return slurm::expand_nodes(job.environment.node_list); }));
  // Without an answer the job trains anyway, and is not requeued before Slurm answers.
  const auto facts = patiently(job.answer_within(), [&] { return slurm::show_job(job.environment.job); });
  if (facts)
    correct(job.environment, *facts);
  else
    say(str("warning: ", facts.error().line()));
  // Slurm may have spread --gpus unevenly, and Slurm 22.05 starts no step at all that asks for more than one
  // of the job's nodes has.
  if (job.environment.gpus_of_all > 0 && job.nodes.size() > 1) {
    const auto fewest = slurm::fewest_gpus(job.environment.job);
    if (fewest && *fewest > 0) job.environment.gpus = std::min(job.environment.gpus, *fewest);
  }
  // Set for all child processes.
  ::setenv("SLURM_RESTART_COUNT", str(job.environment.restarts).c_str(), 1);
  ::unsetenv(slurm::kFollows);
  const slurm::Environment& environment = job.environment;
  if (!options.own_trainers) {
    const bool gpus = options.job.device == "cuda" && environment.gpus > 0;
    options.job.trainers_per_worker =
        std::max<std::uint64_t>(1, gpus ? environment.gpus : environment.tasks_per_node);
  }
  if (options.job.interface.empty()) {
    auto addresses = listen_addresses(job);
    const bool alone = job.nodes.size() == 1;  // but `rekindle join` may come from other nodes
    if (alone && (!addresses || is_loopback(addresses->front()))) return {};
    if (!addresses) return forward_error(std::move(addresses.error()));
    job.addresses = std::move(*addresses);
    const auto here = std::find(job.nodes.begin(), job.nodes.end(), environment.node);
    if (here == job.nodes.end())
      return fail(str("this node, ", environment.node, ", is not a node of the job"));
    options.job.interface = job.addresses[static_cast<std::size_t>(here - job.nodes.begin())];
    const std::string slow = alone ? "" : slow_link(interfaces(), options.job.interface);
    if (!slow.empty()) say("warning: " + slow);
  }
  return {};
}

Status check_run_is_there(const SlurmJob& job, const std::filesystem::path& run_dir) {
  const slurm::Environment& environment = job.environment;
  if (job.from_scratch || environment.is_first_attempt()) return {};
  constexpr std::chrono::milliseconds kPause{500};
  const auto patience = std::max<std::chrono::milliseconds>(kNamesAreSeenWithin, job.answer_within());
  std::string why;
  for (std::chrono::milliseconds waited{0};; waited += kPause) {
    const auto names = names_in(run_dir);
    if (names && !names->empty()) return {};
    why = names ? "" : str(" (", names.error().line(), ")");
    if (waited >= patience) break;
    if (waited.count() == 0)
      say(str("waits until the storage shows the run directory ", run_dir.string(), why));
    std::this_thread::sleep_for(kPause);
  }
  const std::string before = environment.restarts > 0
                                 ? str("this job was requeued (restart ", environment.restarts, ")")
                                 : str("this job goes on with the run of job ", environment.follows);
  return fail(ExitCode::kConfig,
              str(before, ", but its run directory ", run_dir.string(), " is empty or missing on node ",
                  environment.node, why),
              "is the storage mounted? To begin again at step 0, submit a new job or add --from-scratch");
}

Status correct_and_check(SlurmJob& job, const std::filesystem::path& run_dir) {
  const auto facts = patiently(job.answer_within(), [&] { return slurm::show_job(job.environment.job); });
  if (facts) correct(job.environment, *facts);
  return check_run_is_there(job, run_dir);
}

void look_around(SlurmJob& job, LocalOptions& options) {
  slurm::Preflight known;
  if (auto config = slurm::show_config())
    known.config = std::move(*config);
  else
    say(str("warning: ", config.error().line()));
  if (const auto wait = slurm::leading_number(known.config["KillWait"]))
    job.kill_wait = std::chrono::seconds(*wait);
  // Nodes of a cloud may have to be started first.
  constexpr std::uint64_t kBeyond = 60;
  if (const auto resume = slurm::leading_number(known.config["ResumeTimeout"]);
      resume && !options.own_gather_time)
    options.job.gather_time_ms = std::max(options.job.gather_time_ms, 1000 * (*resume + kBeyond));
  if (auto facts = slurm::show_job(job.environment.id())) known.job = std::move(*facts);
  if (auto script = slurm::batch_script(job.environment.id())) known.script = std::move(*script);
  if (job.on_limit == OnLimit::kResubmit) keep_script(options, job, known.script);
  if (known.job && job.on_limit != OnLimit::kRequeue)
    known.job->may_requeue = true;  // the job need not be requeued
  known.heterogeneous = !environment_variable("SLURM_HET_SIZE").empty();
  const auto& cpus = job.environment.cpus;
  if (!cpus.empty()) known.least_cpus = *std::min_element(cpus.begin(), cpus.end());
  known.trainers_per_node = options.job.trainers_per_worker;
  if (job.environment.tasks_per_node > 0 && job.environment.tasks_per_node == known.trainers_per_node)
    known.tasks = job.environment.tasks;
  known.threads = options.job.threads;
  const std::uint64_t trainers = std::max<std::size_t>(1, cpus.size()) * known.trainers_per_node;
  if (options.job.device == "cpu" && trainers < options.job.micro_batches)
    known.idle_micro_batches = options.job.micro_batches - trainers;
  if (options.job.device == "cuda" && known.job && !known.job->asks_for_gpus)
    known.gpus_not_asked_for = job.environment.gpus;
  known.parent = job.environment.batch_process;
  if (known.job && known.job->end) {
    const auto left =
        std::chrono::duration_cast<std::chrono::seconds>(*known.job->end - std::chrono::system_clock::now());
    known.seconds_left = static_cast<std::uint64_t>(std::max<std::int64_t>(0, left.count()));
  }
  constexpr std::uint64_t kUnlimited = 300 * 24 * 3600;  // Slurm shows one year
  known.has_time_limit = !known.job || known.seconds_left.value_or(kUnlimited) < kUnlimited;
  if (known.has_time_limit && known.seconds_left)
    options.time_limit = utc_text(
        std::chrono::duration_cast<std::chrono::milliseconds>(known.job->end->time_since_epoch()).count());
  if (known.script && known.has_time_limit) known.lead_seconds = signal_lead_of(options);
  for (const std::string& line : slurm::preflight(known)) say("warning: " + line);
}

}  // namespace rekindle::app
