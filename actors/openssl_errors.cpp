// OpenSSL keeps errors in a queue of the thread, and SSL_get_error(3) is only right if that queue was empty
// before the call. CAF 0.17 does not empty it, and all connections of a process share one thread: after one
// peer died without a goodbye, or a stranger sent rubbish, the next read of every other connection looked
// broken, too. These definitions stand before the library's and empty the queue first.
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int SSL_read(SSL* ssl, void* to, int bytes) {
  static auto* const real = next<int(SSL*, void*, int)>("SSL_read");
  ERR_clear_error();
  return real(ssl, to, bytes);
}

int SSL_write(SSL* ssl, const void* from, int bytes) {
  static auto* const real = next<int(SSL*, const void*, int)>("SSL_write");
  ERR_clear_error();
  return real(ssl, from, bytes);
}

int SSL_connect(SSL* ssl) {
  static auto* const real = next<int(SSL*)>("SSL_connect");
  ERR_clear_error();
  return real(ssl);
}

int SSL_accept(SSL* ssl) {
  static auto* const real = next<int(SSL*)>("SSL_accept");
  ERR_clear_error();
  return real(ssl);
}
}
