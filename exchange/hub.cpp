#include <unistd.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "exchange/exchange.hpp"
#include "exchange/handshake.hpp"
#include "exchange/layout.hpp"
#include "exchange/local_memory.hpp"
#include "exchange/meeting.hpp"
#include "exchange/shm_exchange.hpp"
#include "exchange/tcp_exchange.hpp"

namespace rekindle::exchange {
namespace {

// Shared memory works between processes that can open each other's files in /proc: of one boot, one pid
// namespace and one user namespace. Two containers of one machine exchange by TCP.
std::string host_identity() {
  const std::string name = pid_namespace();
  return str(boot_id(), ' ', name.empty() ? host_name() : name, ' ', user_namespace());
}

std::string hub_nonce() {
  const std::string bytes = random_nonce();
  return hash128(std::as_bytes(std::span(bytes))).hex();
}

class LocalHub final : public Hub {
 public:
  LocalHub(LocalMemory memory, Listener listener, std::string nonce)
      : memory_(std::move(memory)),
        acceptor_{std::move(listener), {}, RefusedPeerLog("the data port")},
        nonce_(std::move(nonce)) {}

  Endpoint endpoint() const override {
    return {host_identity(),
            ::getpid(),
            memory_.control_fd(),
            acceptor_.listener.address,
            acceptor_.listener.port,
            nonce_,
            ""};
  }
  std::size_t floats() const override { return memory_.floats(); }
  Result<std::span<float>> slot(int i) override { return memory_.slot(i); }
  std::unique_ptr<Exchange> make(const Plan& plan) override {
    if (choose_backend(plan) == Backend::kTcp) return make_tcp_exchange(memory_, acceptor_, plan);
    return make_shm_exchange(memory_, plan);
  }

 private:
  LocalMemory memory_;
  Acceptor acceptor_;
  const std::string nonce_;
};

}  // namespace

Result<std::unique_ptr<Hub>> Hub::open(std::size_t floats, const std::string& address, PortRange ports) {
  const std::string nonce = hub_nonce();
  REKINDLE_TRY(LocalMemory memory, LocalMemory::open(floats, nonce));
  Listener listener;
  if (!address.empty()) {
    REKINDLE_TRY(listener, listen_on(address, ports));
  }
  return std::make_unique<LocalHub>(std::move(memory), std::move(listener), nonce);
}

}  // namespace rekindle::exchange
