#include "actors/coordinator_probe.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <chrono>
#include <memory>

#include "actors/key_pair.hpp"
#include "actors/tls_keys.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/network.hpp"

namespace rekindle::actors {
namespace {

using std::chrono::milliseconds;
using Context = std::unique_ptr<SSL_CTX, OpenSslDeleter<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, OpenSslDeleter<SSL_free>>;

enum class Handshake { kDone, kFailed, kUnanswered };

// Not SSL_connect(), which is ours and waits (openssl_calls.cpp).
Handshake shake_hands(SSL* session, int fd, milliseconds until) {
  for (;;) {
    ERR_clear_error();  // SSL_get_error(3) is only right if this queue was empty
    const int done = SSL_do_handshake(session);
    if (done == 1) return Handshake::kDone;
    const int error = SSL_get_error(session, done);
    ERR_clear_error();
    const bool reads = error == SSL_ERROR_WANT_READ;
    if (!reads && error != SSL_ERROR_WANT_WRITE) return Handshake::kFailed;
    pollfd wait{fd, static_cast<short>(reads ? POLLIN : POLLOUT), 0};
    const auto left = until - boot_time();
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0)
      return Handshake::kUnanswered;
  }
}

}  // namespace

bool may_be_coordinator(const run::CoordinatorPlace& place, const run::Layout& layout, milliseconds answer) {
  const Fd connection = connect_to(place.host, place.port);
  if (!connection) return false;
  if (place.certificate.empty()) return true;
  const Context context(SSL_CTX_new(TLS_client_method()));
  if (KeyPair own; context && load_keys(layout, own)) {
    own.use_certificate(context.get());
    own.use_private_key(context.get());
  }
  const Session session(context ? SSL_new(context.get()) : nullptr);
  if (!session || ::fcntl(connection.get(), F_SETFL, O_NONBLOCK) != 0 ||
      SSL_set_fd(session.get(), connection.get()) != 1)
    return true;  // this process has no memory: that says nothing about the coordinator
  SSL_set_connect_state(session.get());
  // The certificate is compared below. The handshake proves that the listener has its key.
  const Handshake handshake = shake_hands(session.get(), connection.get(), boot_time() + answer);
  if (handshake != Handshake::kDone) return handshake == Handshake::kUnanswered;
  const Certificate shown(SSL_get1_peer_certificate(session.get()));
  return fingerprint_of(shown.get()) == place.certificate;
}

}  // namespace rekindle::actors
