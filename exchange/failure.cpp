#include "exchange/failure.hpp"

#include "base/text.hpp"

namespace rekindle::exchange {

Error aborted_error() { return {ExitCode::kGaveUp, "the exchange was aborted", {}, ErrorKind::kAborted}; }

Error failed_error(int rank, std::string_view why) {
  return {ExitCode::kGaveUp,
          str("the exchange failed at rank ", rank, ": ", why),
          {},
          ErrorKind::kPeerFailed,
          rank};
}

Error altered_error(int rank) {
  Error error = failed_error(rank, "its data were changed in transit (the authentication tag is wrong)");
  error.hint = "the network between the two machines damages data, or an attacker changes them";
  error.kind = ErrorKind::kAlteredData;
  return error;
}

}  // namespace rekindle::exchange
