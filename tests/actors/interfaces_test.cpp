#include "actors/interfaces.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>

namespace rekindle::actors {
namespace {

caf::behavior throwing(caf::event_based_actor* self) {
  end_process_on_exception(*self);
  return {[](int) { throw std::out_of_range("step 7 is unknown"); }};
}

TEST(EndProcessOnException, AnActorThatThrows_EndsItsProcessAndSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::dup2(STDERR_FILENO, STDOUT_FILENO);  // where the log goes without start_logging()
        caf::actor_system_config config;
        caf::actor_system system(config);
        caf::anon_send(system.spawn(throwing), 1);
        system.await_all_actors_done();
      },
      testing::KilledBySignal(SIGABRT), "a program error ends this process: step 7 is unknown");
}

}  // namespace
}  // namespace rekindle::actors
