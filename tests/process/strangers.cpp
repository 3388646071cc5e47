#include "strangers.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>

#include "run/layout.hpp"

namespace rekindle::process_test {

Fd call(const ListeningPort& port, const std::string& bytes) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port.port);
  EXPECT_EQ(::inet_pton(AF_INET, port.address.c_str(), &to.sin_addr), 1);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  // The peer may close the connection before all bytes are sent.
  if (!bytes.empty()) (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return fd;
}

std::string until_hung_up(const Fd& fd) {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return all;
    all.append(buffer, static_cast<std::size_t>(got));
  }
}

bool let_in_with_tls(const ListeningPort& port, const fs::path& run_dir_of_key) {
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                    &::SSL_CTX_free);
  if (!run_dir_of_key.empty()) {
    const run::Layout layout(run_dir_of_key);
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), layout.key_pair().string().c_str()), 1);
    EXPECT_EQ(
        SSL_CTX_use_PrivateKey_file(context.get(), layout.key_pair().string().c_str(), SSL_FILETYPE_PEM), 1);
  }
  const std::unique_ptr<SSL, decltype(&::SSL_free)> ssl(SSL_new(context.get()), &::SSL_free);
  const Fd fd = call(port);
  SSL_set_fd(ssl.get(), fd.get());
  if (SSL_connect(ssl.get()) != 1) return false;
  char byte = 0;
  return SSL_read(ssl.get(), &byte, 1) > 0;  // the server sends data to accepted clients
}

}  // namespace rekindle::process_test
