// Unauthenticated peers that connect to the ports of a run.
#pragma once

#include <string>

#include "base/files.hpp"
#include "harness.hpp"
#include "ports.hpp"

namespace rekindle::process_test {

// Opens a connection and sends these bytes. The connection stays open.
Fd call(const ListeningPort& port, const std::string& bytes = {});
// The data received until the peer closed the connection.
std::string until_hung_up(const Fd& fd);

// A TLS handshake as client with the key pair of that run (empty path: without a certificate), followed by a
// read. True if the read returned data, so that the client was accepted.
bool let_in_with_tls(const ListeningPort& port, const fs::path& run_dir_of_key);

}  // namespace rekindle::process_test
