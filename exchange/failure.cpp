#include "exchange/failure.hpp"

#include <charconv>

#include "base/text.hpp"
#include "exchange/exchange.hpp"

namespace rekindle::exchange {
namespace {

constexpr std::string_view kAborted = "the exchange was aborted";
constexpr std::string_view kFailed = "the exchange failed at rank ";
constexpr std::string_view kAltered = "its data were changed on the way (the authentication tag is wrong)";

}  // namespace

Error aborted_error() { return {ExitCode::kGaveUp, std::string(kAborted), {}}; }

Error failed_error(int rank, std::string_view why) {
  return {ExitCode::kGaveUp, str(kFailed, rank, ": ", why), {}};
}

Error altered_error(int rank) {
  Error error = failed_error(rank, kAltered);
  error.hint = "the network between the two machines damages data, or somebody tampers with it";
  return error;
}

bool is_altered(const Error& error) { return failed_rank(error) >= 0 && error.what.ends_with(kAltered); }

bool is_aborted(const Error& error) { return error.what.starts_with(kAborted); }

int failed_rank(const Error& error) {
  if (!error.what.starts_with(kFailed)) return -1;
  int rank = -1;
  const char* end = error.what.data() + error.what.size();
  return std::from_chars(error.what.data() + kFailed.size(), end, rank).ec == std::errc{} ? rank : -1;
}

}  // namespace rekindle::exchange
