#include "actors/record_writer.hpp"

#include "base/text.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

bool RecordWriter::superseded() const { return run::superseded(layout_, term_); }

bool RecordWriter::no_longer_in_charge() const {
  const auto term = run::term_in_charge(layout_, term_);
  return !term || *term != term_;
}

void RecordWriter::warn_once(const Status& status) {
  if (status || warned_) return;
  warned_ = true;  // the run does not need records, so a full disk must not flood the log or stop the run
  const std::scoped_lock lock(mutex_);
  warning_ = str("records are not written: ", status.error().line());
}

std::string RecordWriter::take_warning() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(warning_, "");
}

}  // namespace rekindle::actors
