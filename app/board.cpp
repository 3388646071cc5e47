#include <chrono>

#include "app/looking.hpp"
#include "app/report.hpp"
#include "app/views.hpp"
#include "base/clock.hpp"
#include "base/network.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "run/page_place.hpp"
#include "view/runs.hpp"
#include "view/tunnel.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

// Whether the run has written its status a moment ago, or is about to.
bool is_alive(const fs::path& run_dir) {
  constexpr std::chrono::minutes kSilent{5};
  const view::RunSummary run = view::summarize(run_dir);
  if (run.state == view::kStarting || run.state == "new") return true;
  const auto age = age_of(run.updated);
  return run.state == "running" && age && *age < kSilent;
}

}  // namespace

Status serve_board(const fs::path& folder, const WatcherOptions& options) {
  if (!is_folder(folder))
    return fail(ExitCode::kConfig, str(folder.string(), " is no folder"), "name one that has runs");
  const fs::path whole = without_slash(fs::absolute(folder).lexically_normal());
  std::vector<std::string> arguments = {"rekindle-board", "serve", whole.string(), "--print-link"};
  if (is_file(run::Layout(whole, Trust::kForeign).config())) arguments.emplace_back("--one-run");
  REKINDLE_TRY(const auto more, board_arguments(options));
  arguments.insert(arguments.end(), more.begin(), more.end());
  return forward_error(become_program("rekindle-board", arguments));
}

Status write_page(const fs::path& run_dir, const fs::path& file) {
  REKINDLE_CHECK(may_become_run(run_dir));
  const fs::path whole = without_slash(fs::absolute(run_dir).lexically_normal());
  return forward_error(become_program(
      "rekindle-board", {"rekindle-board", "file", whole.string(), fs::absolute(file).string()}));
}

Status print_page_link(const fs::path& run_dir) {
  const run::Layout layout(run_dir);
  REKINDLE_CHECK(must_be_run(layout));
  const auto text = read_text(layout.page_place(), run::kMostOfANote);
  const auto place =
      text ? run::read_page_place(*text, layout.page_place().string()) : forward_error(text.error());
  if (!place)
    return fail(ExitCode::kConfig, "this run serves no page",
                str("start it with --status-port; rekindle board ", run_dir.string(), " serves it now"));
  // On another host, somebody else may have the port since: the token is not for them.
  if (run::server_gone(*place) || !is_alive(run_dir))
    return fail(ExitCode::kConfig, "the page of this run is not served any more",
                str("rekindle board ", run_dir.string(), " serves it"));
  REKINDLE_TRY(const std::string token, read_text(layout.page_token(), run::kMostOfANote));
  const std::string& host = place->server.host;
  const bool loopback = is_loopback(place->address);
  say(str("http://", loopback ? "127.0.0.1" : view::name_in_url(place->address, host), ":", place->port,
          "/?token=", token.substr(0, token.find('\n'))));
  // Asked on another machine than the run's: that is the login node, over which the compute node is reached.
  if (loopback) say(str("on your own machine, first: ", view::tunnel(place->port, host, host_name())));
  return {};
}

}  // namespace rekindle::app
