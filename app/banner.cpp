#include "app/banner.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "base/duration.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/training.hpp"

namespace rekindle::app {

using protocol::Job;

namespace {

std::string parameters_text(std::uint64_t count) {
  constexpr std::uint64_t kFew = 100000;
  if (count < kFew) return counted(count, "parameter");
  const double value = static_cast<double>(count) / 1e6;
  std::ostringstream text;
  text << std::fixed << std::setprecision(value < 10 ? 2 : 1) << value << " million parameters";
  return text.str();
}

std::string length(const Job& job) {
  if (job.epochs > 0) return str(counted(job.steps, "step"), " (", counted(job.epochs, "epoch"), ")");
  const double epochs =
      static_cast<double>(job.steps * job.batch_size) / static_cast<double>(job.train_samples);
  std::ostringstream text;
  text << counted(job.steps, "step") << " (" << std::setprecision(3) << epochs << " epochs)";
  return text.str();
}

std::string saving(const Job& job) {
  std::string when = "at the end and at a stop";
  if (job.checkpoint_interval_ms > 0)
    when += str(", every ", format_duration(std::chrono::milliseconds(job.checkpoint_interval_ms)));
  if (job.checkpoint_every > 0) when += str(", every ", counted(job.checkpoint_every, "step"));
  return when;
}

}  // namespace

namespace {

// Of other schedules than the default.
std::string schedule_text(const Job& job) {
  const std::string warmup = job.warmup_steps > 0 ? str(", ", job.warmup_steps, " warm-up steps") : "";
  return (job.schedule == "step" ? "" : str(", ", job.schedule, " schedule")) + warmup;
}

std::string model_and_data(const Job& job, std::uint64_t parameters) {
  const std::string rule = job.optimizer == protocol::kScriptsOptimizer
                               ? "the script's optimizer"
                               : str(job.optimizer, ", learning rate ", job.lr);
  const std::string optimizer = str(parameters_text(parameters), "; ", rule, schedule_text(job));
  if (is_script(job))
    return str("model      of ", job.task.script, ", ", optimizer, "\ndata       ", job.train_samples,
               " training and ", job.test_samples, " test samples\n");
  const std::string size =
      job.task.context > 0 ? str("contexts of ", counted(job.task.context, "token"))
                           : str("images, at ", job.task.image_size, " x ", job.task.image_size, " pixels");
  return str("model      ", job.task.model, ", ", optimizer, "\ndata       ", job.task.dataset, ": ",
             job.train_samples, " training and ", job.test_samples, " test ", size, "\n");
}

}  // namespace

std::string word_for_sample(const Job& job) {
  if (is_script(job)) return "sample";
  return job.task.context > 0 ? "context" : "image";
}

std::string banner(const LocalOptions& options, std::uint64_t workers) {
  const Job& job = options.job;
  const std::uint64_t trainers = workers * job.trainers_per_worker, parts = job.micro_batches;
  std::ostringstream text;
  text << model_and_data(job, options.parameters) << "length     " << length(job) << "; a batch of "
       << counted(job.batch_size, word_for_sample(job)) << " in "
       << (parts == 1 ? "1 micro-batch" : str(parts, " micro-batches")) << "\n"
       << "trainers   " << counted(trainers, "trainer") << " on " << job.device << ", "
       << counted(job.threads, "thread") << " each\n"
       << "written to " << options.run_dir.string() << ": checkpoints " << saving(job)
       << "; metrics.jsonl, logs/";
  if (trainers > parts) {
    text << "\nwarning: " << trainers - parts << " of the " << trainers << " trainers will idle: a batch has "
         << (parts == 1 ? "1 micro-batch" : str(parts, " micro-batches"))
         << " (--micro-batches), and a trainer computes at least one";
  }
  return text.str();
}

std::vector<std::string> crowding(const LocalOptions& options, std::uint64_t processors) {
  const Job& job = options.job;
  const std::string nodes = environment_variable("SLURM_JOB_NUM_NODES");
  if (!nodes.empty() && nodes != "1" && environment_variable("SLURM_STEP_ID").empty())
    return {str("warning: this job has ", nodes,
                " nodes, and this run uses one of them: rekindle slurm in the ",
                "batch script, or rekindle submit, uses all")};
  const std::uint64_t trainers = options.workers * job.trainers_per_worker;
  const std::uint64_t used = trainers * job.threads;
  if (job.device == "cpu" && 4 * used <= processors && trainers < job.micro_batches)
    return {str("this run uses ", used, " of ", counted(processors, "processor"),
                ": more --workers use more, and change no bit (--threads does)")};
  if (job.device != "cpu" || used <= processors) return {};
  return {str("warning: ", counted(trainers, "trainer"), " of ", counted(job.threads, "thread"), " share ",
              counted(processors, "processor"), ": more than ",
              std::max<std::uint64_t>(1, processors / job.threads), " at once will not be faster")};
}

}  // namespace rekindle::app
