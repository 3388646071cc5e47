#include "app/container.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/files.hpp"
#include "base/nearest.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr const char *kSrun = "srun", *kBind = "--bind";

// Not "docker://image", nor srun's "user@registry#image".
bool is_path(const std::string& image) {
  return image.find("://") == std::string::npos && image.find('#') == std::string::npos;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// With what every command needs. Each once, and none below another one.
std::vector<std::string> mounts_of(std::vector<fs::path> visible, const std::string& more) {
  for (const fs::path& path : places_of_programs()) visible.push_back(path);
  visible.push_back(whole_current_folder());
  std::vector<std::string> all = parts_of(more);
  std::ranges::transform(visible, std::back_inserter(all),
                         [](const fs::path& path) { return path.string(); });
  std::ranges::sort(all);
  std::vector<std::string> mounts;
  for (const std::string& path : all) {
    if (path.empty() || path == "/") continue;  // all of this machine would hide the image
    if (mounts.empty() || (path != mounts.back() && !path.starts_with(mounts.back() + "/")))
      mounts.push_back(path);
  }
  return mounts;
}

}  // namespace

Container container_of(const protocol::Job& job) {
  return {job.container, job.container_runtime, job.container_mounts};
}

std::vector<std::string> container_runtimes() { return {"apptainer", "singularity", kSrun}; }

std::string mounts_of(const std::string& given) {
  std::string mounts;
  for (const std::string& path : parts_of(given))
    mounts += str(mounts.empty() ? "" : ",", fs::absolute(path).lexically_normal().string());
  return mounts;
}

std::string image_of(const std::string& given) {
  // What srun takes may be the name of an image in a registry.
  const bool is_file = !given.empty() && is_path(given) && path_exists(fs::absolute(given));
  return is_file ? fs::absolute(given).lexically_normal().string() : given;
}

Status check_container(const Container& container, const fs::path& run_dir, const protocol::Job& job) {
  if (container.image.empty()) return {};
  if (const auto all = container_runtimes(); std::ranges::find(all, container.runtime) == all.end())
    return fail(ExitCode::kUsage, str("--container-runtime ", container.runtime, " is not known"),
                did_you_mean(container.runtime, all));
  if (container.runtime != kSrun && program_on_path(container.runtime).empty())
    return fail(ExitCode::kConfig, str("--container: there is no ", container.runtime, " on PATH"),
                "load its module, or name another --container-runtime");
  if (container.runtime != kSrun && is_path(container.image) && !path_exists(container.image))
    return fail(ExitCode::kConfig, str("--container: there is no ", container.image),
                "give the path of an image, or an address like docker://NAME");
  for (const std::string& path : mounts_of(visible_to(job, run_dir), container.mounts)) {
    if (path.find_first_of(",:") != std::string::npos)
      return fail(ExitCode::kConfig, str("--container: ", path, " cannot be mounted"),
                  "use a path without ',' and ':'");
  }
  return {};
}

std::vector<fs::path> visible_to(const protocol::Job& job, const fs::path& run_dir) {
  std::vector<fs::path> visible{run_dir};
  if (!job.data.empty()) visible.emplace_back(job.data);
  if (!job.script_folder.empty()) visible.emplace_back(job.script_folder);
  return visible;
}

Contained contained(const Container& container, const std::vector<fs::path>& visible, bool gpus) {
  if (container.image.empty()) return {};
  const std::vector<std::string> mounts = mounts_of(visible, container.mounts);
  if (container.runtime == kSrun) {
    std::string pairs;
    for (const std::string& path : mounts) pairs += str(pairs.empty() ? "" : ",", path, ":", path);
    return {{},
            {str("--container-image=", container.image), str("--container-mounts=", pairs),
             str("--container-workdir=", whole_current_folder().string())}};
  }
  std::string list;
  for (const std::string& path : mounts) list += str(list.empty() ? "" : ",", path);
  std::vector<std::string> program{container.runtime, "exec"};
  if (gpus) program.emplace_back("--nv");
  program.insert(program.end(), {kBind, list, container.image});
  return {std::move(program), {}};
}

std::vector<std::string> without_missing_mounts(std::vector<std::string> program) {
  const auto option = std::ranges::find(program, kBind);
  if (option == program.end() || option + 1 == program.end()) return program;
  std::string list;
  for (const std::string& path : parts_of(*(option + 1)))
    if (path_exists(FilePath(path))) list += str(list.empty() ? "" : ",", path);
  *(option + 1) = list;
  return program;
}

Contained contained_worker(const protocol::Job& job, const fs::path& run_dir) {
  return contained(container_of(job), visible_to(job, run_dir), job.device == "cuda");
}

}  // namespace rekindle::app
