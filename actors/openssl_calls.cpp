// Corrections to CAF 0.17's use of OpenSSL. The linker finds these definitions before the library's; where
// both are static libraries (the portable build), it puts them in the place of the library's (--wrap).
//
// - OpenSSL keeps errors in a queue per thread, and SSL_get_error(3) is only right if that queue was empty
//   before the call. CAF does not empty it, and all connections of a process share one thread: after one peer
//   died without closing its connection, or an unauthenticated peer sent garbage, the next read of every
//   other connection seemed to fail, too.
// - While CAF connects, it polls OpenSSL for the end of the handshake without sleeping, because CAF has data
//   to send and the socket is always writable. If a few hundred workers of one machine do so at once, the
//   coordinator that they wait for gets no processor time.
// - An accepted connection without a handshake stays forever, and CAF does not log a failed handshake.
// - CAF reads the certificate and the key again for every connection, and ends the process if that fails: one
//   connection of an unauthenticated peer would be enough when no descriptor is free or the storage is away.
//   Here both come from memory, where load_keys() has put them.
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "actors/handshake_watch.hpp"
#include "actors/key_pair.hpp"

namespace {

using rekindle::actors::HandshakeWatch;
using rekindle::actors::KeyPair;

#ifndef REKINDLE_PORTABLE
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#endif

// One for the process, because OpenSSL's functions have no place to keep it.
HandshakeWatch& watch() {
  static auto* const one = new HandshakeWatch;  // never destroyed: CAF's threads may outlive main's statics
  return *one;
}

// How long a connect waits for data from the peer before the next call. The wait is short because the thread
// must notice when the attempt is cancelled.
constexpr int kAnswerMs = 20;

std::string reason_of(int error) {
  // Peek only: CAF reads the queue, too.
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  if (reason != nullptr) return std::string("TLS: ") + reason;
  return error == SSL_ERROR_SYSCALL || error == SSL_ERROR_ZERO_RETURN
             ? "the peer disconnected before it was authenticated"
             : "TLS failed";
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
#ifdef REKINDLE_PORTABLE
extern "C" {
decltype(SSL_read) __real_SSL_read;
decltype(SSL_write) __real_SSL_write;
decltype(SSL_connect) __real_SSL_connect;
decltype(SSL_accept) __real_SSL_accept;
decltype(SSL_free) __real_SSL_free;
}
#define OURS(name) __wrap_##name
#define THEIRS(name) __real_##name
#else
#define OURS(name) name
#define THEIRS(name) next<decltype(name)>(#name)
#endif

extern "C" {

int OURS(SSL_read)(SSL* ssl, void* to, int bytes) {
  static auto* const real = THEIRS(SSL_read);
  watch().sweep();
  ERR_clear_error();
  return real(ssl, to, bytes);
}

int OURS(SSL_write)(SSL* ssl, const void* from, int bytes) {
  static auto* const real = THEIRS(SSL_write);
  ERR_clear_error();
  return real(ssl, from, bytes);
}

int OURS(SSL_connect)(SSL* ssl) {
  static auto* const real = THEIRS(SSL_connect);
  ERR_clear_error();
  const int done = real(ssl);
  if (done == 1 || SSL_get_error(ssl, done) != SSL_ERROR_WANT_READ) return done;
  pollfd answer{SSL_get_fd(ssl), POLLIN, 0};
  if (::poll(&answer, 1, kAnswerMs) <= 0) return done;
  ERR_clear_error();
  return real(ssl);
}

int OURS(SSL_accept)(SSL* ssl) {
  static auto* const real = THEIRS(SSL_accept);
  watch().began(ssl, SSL_get_fd(ssl));
  ERR_clear_error();
  const int result = real(ssl);
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return result;
  // A peer that disconnects without sending data only tested whether the port answers, as the run's own
  // workers do.
  const bool spoke = BIO_number_read(SSL_get_rbio(ssl)) > 0;
  if (result == 1) {
    watch().ended(ssl);
  } else if (spoke) {
    watch().failed(ssl, reason_of(error));
  }
  return result;
}

int OURS(SSL_CTX_use_certificate_chain_file)(SSL_CTX* context, const char* /*file*/) {
  return KeyPair::current().use_certificate(context);
}

int OURS(SSL_CTX_use_PrivateKey_file)(SSL_CTX* context, const char* /*file*/, int /*type*/) {
  return KeyPair::current().use_private_key(context);
}

int OURS(SSL_CTX_load_verify_locations)(SSL_CTX* context, const char* /*file*/, const char* /*directory*/) {
  return KeyPair::current().trust_certificate(context);
}

void OURS(SSL_free)(SSL* ssl) {
  static auto* const real = THEIRS(SSL_free);
  watch().ended(ssl);
  real(ssl);
}
}
// NOLINTEND(bugprone-reserved-identifier)
