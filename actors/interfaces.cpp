#include "actors/interfaces.hpp"

#include <cstdlib>
#include <exception>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::actors {

void end_process_on_exception(caf::scheduled_actor& actor) {
  actor.set_exception_handler([](caf::scheduled_actor*, std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      log_error(str("a program error ends this process: ", error.what()));
    } catch (...) {
      log_error("a program error ends this process");
    }
    std::abort();
  });
}

}  // namespace rekindle::actors
