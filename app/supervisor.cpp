#include "app/supervisor.hpp"

#include "app/local_site.hpp"
#include "app/report.hpp"
#include "app/supervisor_loop.hpp"

namespace rekindle::app {

int run_at(Site& site, const LocalOptions& options, InitialState initial) {
  Watchers watchers(options.layout(), options.watchers);  // first: they see the end of the run
  Workers workers(site.machines(), site.worker_arguments());
  Supervisor supervisor(site, options, {std::move(initial), &watchers}, workers);
  const auto exit_code = supervisor.run();
  if (exit_code) return *exit_code->exit_code;  // always set, because this is not a take-over
  supervisor.kill_all();
  report(exit_code.error());
  return supervisor.end_site({static_cast<int>(exit_code.error().code)});
}

Result<TakenOver> take_over(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how) {
  return Supervisor(site, options, workers, how).run();
}

int run_local(const LocalOptions& options, InitialState initial) {
  LocalSite site(options);
  return run_at(site, options, std::move(initial));
}

}  // namespace rekindle::app
