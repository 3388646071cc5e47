// What listens at a coordinator's address, and whether it counts as the coordinator.
#include "actors/coordinator_probe.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "../temporary_directory.hpp"
#include "actors/key_pair.hpp"
#include "actors/tls_keys.hpp"
#include "base/files.hpp"

namespace rekindle::actors {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Listens on a port of 127.0.0.1. Without `serve`, no process accepts the connections: only the kernel does,
// as for a suspended process.
class Port {
 public:
  using Serve = std::function<void(int connection)>;

  explicit Port(const Serve& serve = {}) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), size), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    number_ = ntohs(own.sin_port);
    if (!serve) return;
    thread_ = std::thread([listener = socket_.get(), serve] {
      const Fd connection(::accept(listener, nullptr, nullptr));
      if (connection) serve(connection.get());
    });
  }
  ~Port() {
    ::shutdown(socket_.get(), SHUT_RDWR);  // ends accept()
    if (thread_.joinable()) thread_.join();
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  std::uint16_t number() const { return number_; }

 private:
  Fd socket_;
  std::uint16_t number_ = 0;
  std::thread thread_;
};

// A server as CAF makes one (actors/openssl_calls.cpp): it wants a peer with the same pair.
Port::Serve tls_with(const std::string& pem, bool accepts) {
  return [pem, accepts](int connection) {
    KeyPair pair;
    EXPECT_TRUE(pair.take(pem));
    const std::unique_ptr<SSL_CTX, OpenSslDeleter<SSL_CTX_free>> context(SSL_CTX_new(TLS_method()));
    EXPECT_EQ(pair.use_certificate(context.get()), 1);
    EXPECT_EQ(pair.use_private_key(context.get()), 1);
    EXPECT_EQ(pair.trust_certificate(context.get()), 1);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    const std::unique_ptr<SSL, OpenSslDeleter<SSL_free>> session(SSL_new(context.get()));
    SSL_set_fd(session.get(), connection);
    EXPECT_EQ(SSL_accept(session.get()) == 1, accepts);
  };
}

// A run, and another run with its own key pair.
class CoordinatorProbe : public ::testing::Test {
 protected:
  CoordinatorProbe() {
    std::signal(SIGPIPE, SIG_IGN);  // as in a coordinator
    EXPECT_TRUE(renew_keys(layout_));
    EXPECT_TRUE(renew_keys(other_));
  }
  static std::string pair_of(const run::Layout& layout) { return read_text(layout.key_pair()).value_or(""); }
  // The threads of the listeners need time on a busy machine; the silent ones say nothing in any.
  bool asked(const Port& port, milliseconds answer = seconds(60)) const {
    return asked(port, certificate(), answer);
  }
  bool asked(const Port& port, const std::string& certificate, milliseconds answer = seconds(60)) const {
    return may_be_coordinator({1, "127.0.0.1", port.number(), certificate}, layout_, answer);
  }
  std::string certificate() const {
    KeyPair pair;
    EXPECT_TRUE(load_keys(layout_, pair));
    return pair.fingerprint();
  }

  TemporaryDirectory directory_, others_;
  run::Layout layout_{directory_.path()}, other_{others_.path()};
};

TEST_F(CoordinatorProbe, TheRunsOwn_IsAliveAndAcceptsTheProbe) {
  EXPECT_EQ(certificate().size(), 64U);
  const Port port(tls_with(pair_of(layout_), true));
  EXPECT_TRUE(asked(port));
}

TEST_F(CoordinatorProbe, TheRunsOwnWhileItsKeyCannotBeRead_IsAlive) {
  const std::string before = certificate();
  const Port port(tls_with(pair_of(layout_), false));
  fs::remove(layout_.key_pair().path());
  EXPECT_TRUE(asked(port, before));
}

TEST_F(CoordinatorProbe, SuspendedOne_IsAlive) { EXPECT_TRUE(asked(Port(), seconds(1))); }

TEST_F(CoordinatorProbe, OneThatStopsInTheHandshake_IsAlive) {
  const Port port([](int connection) {
    char byte = 0;
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
  });
  EXPECT_TRUE(asked(port, seconds(1)));
}

TEST_F(CoordinatorProbe, AnotherRunAtTheSameAddress_IsNotThisRuns) {
  const Port port(tls_with(pair_of(other_), false));
  EXPECT_FALSE(asked(port));
}

TEST_F(CoordinatorProbe, AListenerThatClosesOrDoesNotSpeakTls_IsNone) {
  EXPECT_FALSE(asked(Port([](int) {})));
  const Port page([](int connection) {
    constexpr std::string_view kAnswer = "HTTP/1.0 400 Bad Request\r\n\r\n";
    EXPECT_EQ(::send(connection, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(kAnswer.size()));
    char byte = 0;
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
  });
  EXPECT_FALSE(asked(page));
}

TEST_F(CoordinatorProbe, NobodyThere_IsNone) {
  const std::uint16_t free = Port().number();
  EXPECT_FALSE(may_be_coordinator({1, "127.0.0.1", free, certificate()}, layout_));
  EXPECT_FALSE(may_be_coordinator({1, "no address", free, certificate()}, layout_));
}

// The address was written by an earlier version, which may still run.
TEST_F(CoordinatorProbe, WithoutAKnownCertificate_EveryListenerCounts) {
  const Port port(tls_with(pair_of(other_), false));
  EXPECT_TRUE(asked(port, ""));
}

}  // namespace
}  // namespace rekindle::actors
