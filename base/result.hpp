// Expected failures are values: Result<T> holds a T, or an Error with the problem and the remedy.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rekindle {

// Exit codes of a process. They must not change, because scripts and Slurm settings depend on them.
enum class ExitCode : int {
  kFinished = 0,
  kUsage = 64,        // wrong command line
  kGaveUp = 70,       // crash loop, or an error that would occur again
  kSaved = 75,        // state saved: start it again
  kConfig = 78,       // wrong configuration or data
  kInterrupted = 130  // saved after Ctrl-C
};

// Programs decide by the kind. The text is for people, and no code searches for words in it.
enum class ErrorKind {
  kOther,
  kSystem,        // a system call failed on an existing file or resource: a later try may succeed
  kNotYet,        // what is waited for has not come yet: ask again, nothing is lost
  kUnreadable,    // samples could not be read for a long time: another process may be able to
  kAborted,       // the coordinator ended the generation
  kPeerFailed,    // a peer died, left or broke the protocol: Error::rank
  kAlteredData,   // data of that peer do not match their authentication tag: Error::rank
  kDamage,        // the content of a file differs from what was written
  kChangedData,   // a file of the data set is not what it was when the run began
  kChangedState,  // memory changed between hashing and writing
  kTask,          // the computation failed (data that cannot be read, a device): it would fail again
};

struct Error {
  ExitCode code = ExitCode::kGaveUp;
  std::string what;  // the problem, with the path or the value
  std::string hint;  // what the user can do; may be empty
  ErrorKind kind = ErrorKind::kOther;
  int rank = -1;  // the peer that the error is about, or -1

  // "what: hint", as printed on stderr after "rekindle: "
  std::string line() const { return hint.empty() ? what : what + ": " + hint; }
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ExitCode code, std::string what, std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(what), std::move(hint)});
}
// An I/O or run-time failure that is not caused by the command line or the configuration.
inline tl::unexpected<Error> fail(std::string what, std::string hint = {}) {
  return fail(ExitCode::kGaveUp, std::move(what), std::move(hint));
}
inline tl::unexpected<Error> forward_error(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace rekindle

#define REKINDLE_CONCAT_INNER(a, b) a##b
#define REKINDLE_CONCAT(a, b) REKINDLE_CONCAT_INNER(a, b)

// REKINDLE_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define REKINDLE_TRY(declaration, ...) \
  REKINDLE_TRY_INNER(declaration, REKINDLE_CONCAT(try_, __LINE__), __VA_ARGS__)
#define REKINDLE_TRY_INNER(declaration, name, ...)                      \
  auto name = (__VA_ARGS__);                                            \
  if (!name) return ::rekindle::forward_error(std::move(name.error())); \
  declaration = std::move(*name)

// REKINDLE_CHECK(f()): returns f()'s error from the enclosing function, if there is one.
#define REKINDLE_CHECK(...)                                              \
  do {                                                                   \
    if (auto check_result = (__VA_ARGS__); !check_result)                \
      return ::rekindle::forward_error(std::move(check_result.error())); \
  } while (false)
