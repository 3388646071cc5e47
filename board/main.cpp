// rekindle-board: pages, metrics and files of runs, from their directories alone. `rekindle` starts it.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/network.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "board/metrics_site.hpp"
#include "board/metrics_target.hpp"
#include "board/one_file.hpp"
#include "board/service.hpp"
#include "board/tensorboard_watch.hpp"
#include "board/token.hpp"
#include "run/page_place.hpp"
#include "view/tunnel.hpp"

namespace rekindle::board {
namespace {

namespace asio = boost::asio;

struct Options {
  std::string folder, address = "127.0.0.1", page_file;
  int port = -1;  // -1: no page
  std::vector<std::string> hosts;
  bool one_run = false, of_a_run = false, print_link = false;
  std::string metrics_address, metrics_token_file, metrics_targets;
  int metrics_port = -1;
  bool metrics_open = false, tensorboard = false;
};

int report(const Error& error) {
  std::cerr << "rekindle: " << printable(error.line()) << "\n";
  return static_cast<int>(error.code);
}

// The names under which a browser may ask for a page that is served here.
std::vector<std::string> host_names(const Options& options) {
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1", options.address, options.metrics_address,
                                    host_name()};
  for (const Interface& each : interfaces()) names.push_back(each.address);
  const std::string host = host_name();
  if (const std::size_t dot = host.find('.'); dot != std::string::npos) names.push_back(host.substr(0, dot));
  names.insert(names.end(), options.hosts.begin(), options.hosts.end());
  for (std::string& name : names)
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return names;
}

// For a person at a terminal. What others may read, as a batch log, says only where the secret is.
void print_link(const Options& options, std::uint16_t port, const std::string& token,
                const std::string& file) {
  std::cout << "the page: http://" << view::name_in_url(options.address, host_name()) << ":" << port << "/";
  if (::isatty(STDOUT_FILENO) != 0)
    std::cout << "?token=" << token << "\n";
  else
    std::cout << "?token=... (the secret is in " << file << ")\n";
  // In a Slurm job, the compute node is reached over the machine where the job was submitted.
  if (is_loopback(options.address))
    std::cout << "from another machine, first: "
              << view::tunnel(port, host_name(), environment_variable("SLURM_SUBMIT_HOST")) << "\n";
  std::cout.flush();
}

class Program {
 public:
  explicit Program(Options options) : options_(std::move(options)) {}

  Status begin() {
    const run::Layout layout(options_.folder, options_.of_a_run ? Trust::kOwn : Trust::kForeign);
    AccessRules access{.token = "",
                       .cookie = cookie_name(options_.folder),
                       .hosts = host_names(options_),
                       .metrics_token = "",
                       .open_metrics = options_.metrics_open};
    if (options_.port >= 0 || options_.metrics_port >= 0) {
      REKINDLE_TRY(const FilePath file,
                   options_.of_a_run ? Result<FilePath>(layout.page_token()) : board_token_file());
      REKINDLE_TRY(access.token, take_token(file));
      access.cookie_value = cookie_value(access.token);
      token_file_ = file.string();
    }
    Status metrics_token;
    if (!options_.metrics_token_file.empty()) {
      auto token = read_token(options_.metrics_token_file);
      if (token)
        access.metrics_token = std::move(*token);
      else
        metrics_token = forward_error(std::move(token.error()));
    }
    service_ = std::make_unique<Service>(
        io_, ServiceOptions{.folder = options_.folder, .one_run = options_.one_run, .access = access});
    if (options_.port >= 0) REKINDLE_CHECK(or_without(page_, serve_page(layout, access.token)));
    if (options_.metrics_port >= 0 || !metrics_token)
      REKINDLE_CHECK(or_without(metrics_, metrics_token ? serve_metrics() : metrics_token));
    if (!options_.page_file.empty()) {
      page_file_.emplace(options_.folder, options_.page_file);
      asio::post(files_, [this] { write_page(); });
    }
    if (options_.tensorboard) {
      tensorboard_.emplace(layout);
      asio::post(files_, [this] { write_tensorboard(); });
    }
    return {};
  }

  bool has_work() const { return page_ || metrics_ || page_file_ || tensorboard_; }

  void run() {
    // Ctrl-C in the terminal of a run, or SIGTERM of a scheduler, is for its supervisor, which ends this
    // process when the run has ended.
    if (options_.of_a_run) ignore_group_signals();
    asio::signal_set signals(io_, end_signal());
    if (!options_.of_a_run)
      for (const int signal : {SIGTERM, SIGINT, SIGHUP}) signals.add(signal);
    signals.async_wait([this](const auto&, int) { io_.stop(); });
    io_.run();
    files_.join();
    if (page_file_) std::ignore = page_file_->write();
    if (tensorboard_) tell_once(tensorboard_->finish());
    forget_place();
  }

 private:
  // Somebody else may get this port. The next attempt may serve its page already.
  void forget_place() const {
    const FilePath file = run::Layout(options_.folder).page_place();
    if (!place_.empty() && read_text(file, run::kMostOfANote).value_or("") == place_)
      std::ignore = remove_file(file);
  }
  // If a run's own cannot serve one thing, it still does the others.
  Status or_without(std::unique_ptr<Server>& server, const Status& served) const {
    if (served || !options_.of_a_run) return served;
    server.reset();
    Error error = served.error();
    error.what += ": the run goes on without it";
    report(error);
    return {};
  }

  Status serve_page(const run::Layout& layout, const std::string& token) {
    page_ = std::make_unique<Server>(io_, *service_);
    REKINDLE_TRY(const std::uint16_t port,
                 page_->listen(options_.address, static_cast<std::uint16_t>(options_.port)));
    if (options_.of_a_run) {
      // For `rekindle status RUN --link`.
      place_ = run::own_page_place(options_.address, port);
      REKINDLE_CHECK(replace_file(layout.page_place(), place_));
    }
    if (options_.print_link) print_link(options_, port, token, token_file_);
    return {};
  }

  Status serve_metrics() {
    metrics_site_ = std::make_unique<MetricsSite>(*service_);
    metrics_ = std::make_unique<Server>(io_, *metrics_site_);
    REKINDLE_TRY(
        const std::uint16_t port,
        metrics_->listen(options_.metrics_address, static_cast<std::uint16_t>(options_.metrics_port)));
    if (options_.print_link)
      std::cout << "metrics: http://" << options_.metrics_address << ":" << port << "/metrics" << std::endl;
    if (options_.metrics_targets.empty()) return {};
    target_ = std::make_unique<MetricsTarget>(
        options_.metrics_targets,
        MetricsPlace{options_.metrics_address, port, options_.folder, options_.one_run});
    asio::post(files_, [this] { write_target(); });
    return {};
  }

  // The next time, `pause` after this one has ended. Storage may be slow, and the page is served meanwhile.
  void again(asio::steady_timer& timer, std::chrono::milliseconds pause, void (Program::*write)()) {
    asio::post(io_, [this, &timer, pause, write] {
      timer.expires_after(pause);
      timer.async_wait([this, write](const auto& error) {
        if (!error) asio::post(files_, [this, write] { (this->*write)(); });
      });
    });
  }

  // ---- in the thread of files_ ----

  void write_page() {
    tell_once(page_file_->write());
    again(page_timer_, std::chrono::minutes(1), &Program::write_page);
  }

  void write_tensorboard() {
    const auto more = tensorboard_->look();
    if (!more) tell_once(forward_error(more.error()));
    const bool at_once = more && *more;
    again(tensorboard_timer_, std::chrono::milliseconds(at_once ? 1 : 1000), &Program::write_tensorboard);
  }

  // The page does not need it, and its folder may be away for a while.
  void write_target() {
    const Status written = target_->write();
    tell_once(written);
    if (!written) again(target_timer_, std::chrono::minutes(1), &Program::write_target);
  }

  void tell_once(const Status& status) {
    if (!status && std::exchange(error_, status.error().line()) != status.error().line())
      std::cerr << "rekindle: warning: " << printable(error_) << "\n";
  }

  const Options options_;
  asio::io_context io_{1};
  asio::thread_pool files_{1};
  asio::steady_timer page_timer_{io_}, tensorboard_timer_{io_}, target_timer_{io_};
  std::string error_;       // told last
  std::string token_file_;  // of the page
  std::string place_;       // of the page, as in page.json; empty: it is not written
  std::optional<PageFile> page_file_;
  std::optional<TensorBoardWatch> tensorboard_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<MetricsSite> metrics_site_;
  std::unique_ptr<MetricsTarget> target_;
  std::unique_ptr<Server> page_, metrics_;  // after the service
};

int main(int argc, char** argv) {
  Options options;
  CLI::App cli{"pages and metrics of runs; started by rekindle"};
  CLI::App& serve = *cli.add_subcommand("serve");
  serve.add_option("FOLDER", options.folder)->required();
  serve.add_flag("--one-run", options.one_run);
  serve.add_flag("--of-a-run", options.of_a_run,
                 "a run's own: its token is in key/, and its parent's end is its end");
  serve.add_flag("--print-link", options.print_link);
  serve.add_option("--port", options.port)->check(CLI::Range(0, 65535));
  serve.add_option("--address", options.address);
  serve.add_option("--allow-host", options.hosts);
  serve.add_option("--page-file", options.page_file);
  serve.add_option("--metrics-address", options.metrics_address);
  serve.add_option("--metrics-port", options.metrics_port)->check(CLI::Range(0, 65535));
  serve.add_option("--metrics-token-file", options.metrics_token_file);
  serve.add_option("--metrics-targets", options.metrics_targets);
  serve.add_flag("--metrics-open", options.metrics_open);
  serve.add_flag("--tensorboard", options.tensorboard);
  CLI::App& file = *cli.add_subcommand("file");
  file.add_option("FOLDER", options.folder)->required();
  file.add_option("FILE", options.page_file)->required();
  cli.require_subcommand(1);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report({ExitCode::kUsage, error.what(), ""});
  }
  if (file.parsed()) {
    const Status written = PageFile(options.folder, options.page_file).write();
    return written ? 0 : report(written.error());
  }
  if (options.of_a_run) ::prctl(PR_SET_PDEATHSIG, end_signal());
  allow_many_files();
  Program program(options);
  if (const Status begun = program.begin(); !begun) {
    Error error = begun.error();
    if (options.of_a_run) error.what += ": the run goes on without it";
    return report(error);
  }
  if (!program.has_work()) return static_cast<int>(ExitCode::kConfig);
  program.run();
  return 0;
}

}  // namespace
}  // namespace rekindle::board

int main(int argc, char** argv) { return rekindle::board::main(argc, argv); }
