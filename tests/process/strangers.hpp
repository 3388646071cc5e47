// People who do not belong to a run and talk to its ports.
#pragma once

#include <string>

#include "base/files.hpp"
#include "harness.hpp"
#include "ports.hpp"

namespace rekindle::process_test {

// A connection on which these bytes have been sent; it stays open.
Fd call(const ListeningPort& port, const std::string& bytes = {});
// What came back when the other side has hung up.
std::string until_hung_up(const Fd& fd);

// A TLS handshake as client with that run's key pair (none: without a certificate), and a read. Whether it
// was let in, which is: something could be read.
bool let_in_with_tls(const ListeningPort& port, const fs::path& run_dir_of_key);

}  // namespace rekindle::process_test
