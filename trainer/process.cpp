#include "trainer/process.hpp"

#include <unistd.h>

#include "base/clock.hpp"
#include "base/network.hpp"
#include "trainer/background_writer.hpp"
#include "trainer/plan.hpp"
#include "trainer/run_storage.hpp"
#include "trainer/socket_link.hpp"
#include "trainer/trainer.hpp"

namespace rekindle::trainer {

using protocol::Job;

namespace {

Result<std::unique_ptr<exchange::Hub>> open_hub(const Job& job, std::size_t floats) {
  REKINDLE_TRY(const PortRange ports, parse_port_range(job.port_range));
  REKINDLE_TRY(std::string address, choose_address(interfaces(), job.interface));
  if (job.exchange == "shm") address.clear();  // no peer connects, so no port is needed
  return exchange::Hub::open(floats, address, ports);
}

Status run(const TrainerConfig& config, const MakeTask& make_task, Link& link) {
  const Job& job = config.job;
  REKINDLE_TRY(const std::unique_ptr<Task> task, make_task(job));
  REKINDLE_TRY(const std::unique_ptr<exchange::Hub> hub, open_hub(job, task->gradient_floats()));
  RunStorage storage(config.layout, job.init);
  const SteadyClock clock;
  // Declared after the task, because the writer may read the memory of the task until the writer is
  // destroyed.
  BackgroundWriter writer(link, config.layout.root());
  Trainer trainer({job, *task, *hub, link, writer, storage, clock});
  protocol::TrainerReady ready;
  ready.trainer = link.trainer();
  ready.host = host_name();
  ready.device = job.device;
  ready.address = to_address(hub->endpoint());
  ready.pid = ::getpid();
  REKINDLE_CHECK(trainer.warm_up(std::move(ready), config.build));
  return trainer.run_until_quit();
}

}  // namespace

Status run_trainer(const TrainerConfig& config, const MakeTask& make_task, Fd worker_socket) {
  SocketLink link(std::move(worker_socket), config.trainer);
  Status status = run(config, make_task, link);
  if (!status) {
    const Error& error = status.error();
    link.send(protocol::TrainerFailed{config.trainer, static_cast<int>(error.code), error.what, error.hint});
  }
  return status;
}

}  // namespace rekindle::trainer
