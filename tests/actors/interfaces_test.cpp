#include "actors/interfaces.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace rekindle::actors {
namespace {

// With an argument, because CAF 0.17 binds a null reference where a function has none.
caf::behavior throwing(caf::event_based_actor* self, int step) {
  end_process_on_exception(*self);
  return {[step](int) { throw std::out_of_range("step " + std::to_string(step) + " is unknown"); }};
}

TEST(EndProcessOnException, AnActorThatThrows_EndsItsProcessAndSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::dup2(STDERR_FILENO, STDOUT_FILENO);  // where the log goes without start_logging()
        caf::actor_system_config config;
        caf::actor_system system(config);
        caf::anon_send(system.spawn(throwing, 7), 1);
        system.await_all_actors_done();
      },
      testing::KilledBySignal(SIGABRT), "a program error ends this process: step 7 is unknown");
}

}  // namespace
}  // namespace rekindle::actors
