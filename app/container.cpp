#include "app/container.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/lines.hpp"
#include "base/lists.hpp"
#include "base/nearest.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr const char *kSrun = "srun", *kBind = "--bind";

// Not "docker://image", nor srun's "user@registry#image".
bool is_path(const std::string& image) {
  return image.find("://") == std::string::npos && image.find('#') == std::string::npos;
}

fs::path current_folder() {
  std::error_code gone;
  return fs::current_path(gone);
}

// What a job's processes need of the job.
std::vector<fs::path> visible_to(const protocol::Job& job, const fs::path& run_dir) {
  return {run_dir, job.task.data, job.task.script_folder};
}

fs::path without_links(const fs::path& path) {
  std::error_code none;
  return fs::weakly_canonical(path, none);
}

bool can_be_mounted(const fs::path& path) { return path.native().find_first_of(",:") == std::string::npos; }

// With what every command needs. Each once, and none below another one.
std::vector<std::string> all_mounts(std::vector<fs::path> visible, const std::string& more) {
  const std::vector<fs::path> own = places_of_programs();
  const std::vector<std::string> others = comma_separated(more);
  visible.insert(visible.end(), own.begin(), own.end());
  visible.insert(visible.end(), others.begin(), others.end());
  visible.push_back(current_folder());
  // A link below a folder that is mounted leads to the same path inside, which must be there, too.
  for (std::size_t i = 0, given = visible.size(); i < given; ++i) {
    const fs::path target = without_links(visible[i]);
    if (can_be_mounted(target)) visible.push_back(target);
  }
  std::ranges::sort(visible);
  std::vector<std::string> mounts;
  for (const fs::path& each : visible) {
    const std::string& path = each.native();
    if (path.empty() || path == "/") continue;  // all of this machine would hide the image
    if (mounts.empty() || (path != mounts.back() && !path.starts_with(mounts.back() + "/")))
      mounts.push_back(path);
  }
  return mounts;
}

// Of a file, its whole path. What srun takes may be the name of an image in a registry.
std::string whole_image(const std::string& given) {
  const bool is_file = !given.empty() && is_path(given) && path_exists(fs::absolute(given));
  return is_file ? fs::absolute(given).lexically_normal().string() : given;
}

std::string whole_mounts(const std::string& given) {
  std::vector<std::string> mounts = comma_separated(given);
  std::erase(mounts, "");
  for (std::string& path : mounts) path = fs::absolute(path).lexically_normal();
  return joined(mounts, ",");
}

}  // namespace

Container container_of(const protocol::Job& job) {
  return {job.container, job.container_runtime, job.container_mounts};
}

Container whole_container(const std::string& image, const std::string& runtime, const std::string& mounts) {
  return {whole_image(image), runtime, whole_mounts(mounts)};
}

void set_container(protocol::Job& job, const Container& container) {
  job.container = container.image;
  job.container_runtime = container.runtime;
  job.container_mounts = container.mounts;
}

Status check_container(const Container& container, const fs::path& run_dir, const protocol::Job& job) {
  if (container.image.empty()) return {};
  if (const auto all = protocol::container_runtimes(); std::ranges::find(all, container.runtime) == all.end())
    return fail(ExitCode::kUsage, str("--container-runtime ", container.runtime, " is not known"),
                did_you_mean(container.runtime, all));
  if (container.runtime != kSrun && program_on_path(container.runtime).empty())
    return fail(ExitCode::kConfig, str("--container: there is no ", container.runtime, " on PATH"),
                "load its module, or name another --container-runtime");
  if (container.runtime != kSrun && is_path(container.image) && !path_exists(container.image))
    return fail(ExitCode::kConfig, str("--container: there is no ", container.image),
                "give the path of an image, or an address like docker://NAME");
  for (const std::string& path : all_mounts(visible_to(job, run_dir), container.mounts)) {
    if (!can_be_mounted(path))
      return fail(ExitCode::kConfig, str("--container: ", path, " cannot be mounted"),
                  "use a path without ',' and ':'");
  }
  return {};
}

Status check_no_srun(const Container& container, const std::string& command) {
  if (container.image.empty() || container.runtime != kSrun) return {};
  return fail(ExitCode::kConfig,
              str("rekindle ", command, " cannot start the containers of --container-runtime srun"),
              "only the nodes of a batch job can (rekindle slurm)");
}

namespace {

// A site that lets its users mount nothing shows what the image has at the path of the programs. The
// coordinator refuses such workers, but only its log says so, and the run waits for others.
Status check_build(const std::string& version, const std::string& program, const std::string& image) {
  REKINDLE_TRY(const std::string own, own_build());
  if (str("\n", version).find(str("\nrekindle ", own, "\n")) != std::string::npos) return {};
  return fail(ExitCode::kConfig,
              str("--container: ", program, " in ", image, " is of another build of rekindle than this one (",
                  own, ")"),
              "see docs/trouble.md, \"Containers\"");
}

}  // namespace

Status try_container(const protocol::Job& job, const fs::path& run_dir) {
  constexpr std::chrono::hours kLimit{8};  // the runtime may download the image
  const std::vector<std::string> argv = without_missing_mounts(contained_worker(job, run_dir).program);
  if (argv.empty()) return {};
  say(str("starts ", job.container, " to see that it works"));
  const auto start = [&](const std::string& program, const std::string& option) {
    std::vector<std::string> words = argv;
    words.insert(words.end(), {program, option});
    return run_command(words, kLimit);
  };
  const std::string program = program_path("rekindle");
  REKINDLE_TRY(CommandOutput output, start(program, "--version"));
  if (output.ok()) {
    REKINDLE_CHECK(check_build(output.out, program, job.container));
    // Workers are rekindle-control, which needs more libraries than rekindle does.
    REKINDLE_TRY(output, start(program_path("rekindle-control"), "--help"));
  }
  if (output.ok()) return {};
  std::fputs(output.err.c_str(), stderr);
  return fail(ExitCode::kConfig,
              str("--container: a program cannot be started in ", job.container, ": ",
                  output.status.by_signal ? str("signal ", output.status.code) : last_line_of(output.err)),
              "see docs/trouble.md, \"Containers\"");
}

Contained contained(const Container& container, const std::vector<fs::path>& visible, bool gpus) {
  if (container.image.empty()) return {};
  std::vector<std::string> mounts = all_mounts(visible, container.mounts);
  if (container.runtime == kSrun) {
    for (std::string& path : mounts) path += ":" + path;
    return {{},
            {str("--container-image=", container.image), str("--container-mounts=", joined(mounts, ",")),
             str("--container-workdir=", current_folder().string())}};
  }
  std::vector<std::string> program{container.runtime, "exec"};
  if (gpus) program.emplace_back("--nv");
  program.insert(program.end(), {kBind, joined(mounts, ","), container.image});
  return {std::move(program), {}};
}

std::vector<std::string> without_missing_mounts(std::vector<std::string> program) {
  const auto option = std::ranges::find(program, kBind);
  if (option == program.end() || option + 1 == program.end()) return program;
  std::vector<std::string> mounts = comma_separated(*(option + 1));
  std::erase_if(mounts, [](const std::string& path) { return !path_exists(FilePath(path)); });
  *(option + 1) = joined(mounts, ",");
  return program;
}

Contained contained_worker(const protocol::Job& job, const fs::path& run_dir) {
  return contained(container_of(job), visible_to(job, run_dir), job.device == "cuda");
}

}  // namespace rekindle::app
