#include "actors/interfaces.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

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

// A beat with another value in each field than the default, and than in any other number.
nlohmann::json beat_without_defaults() {
  nlohmann::json flat = nlohmann::json(protocol::TrainerBeat{}).flatten();
  std::uint64_t number = 40;
  for (auto field = flat.begin(); field != flat.end(); ++field) {
    if (field.key() == "/phase")
      *field = "writing";
    else if (field->is_string())
      *field = field.key();
    else if (field->is_boolean())
      *field = !field->get<bool>();
    else
      *field = ++number;
  }
  return flat.unflatten();
}

// A beat goes from the trainer to its worker as JSON, and from there in CAF's form. A field that is missing
// in its inspect() has its default at the coordinator.
TEST(TrainerBeat, EachFieldOfItsJson_ArrivesInCafsForm) {
  const nlohmann::json wanted = beat_without_defaults();
  auto sent = wanted.get<protocol::TrainerBeat>();
  ASSERT_EQ(nlohmann::json(sent), wanted);
  std::vector<char> bytes;
  caf::binary_serializer sink(nullptr, bytes);
  ASSERT_FALSE(sink(sent));
  protocol::TrainerBeat received;
  caf::binary_deserializer source(nullptr, bytes);
  ASSERT_FALSE(source(received));
  EXPECT_EQ(nlohmann::json(received), wanted);
}

}  // namespace
}  // namespace rekindle::actors
