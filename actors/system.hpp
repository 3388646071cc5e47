// The actor system of a control process: CAF with mutual TLS from the run's key pair.
#pragma once

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include "actors/interfaces.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

class SystemConfig : public caf::actor_system_config {
 public:
  explicit SystemConfig(const run::Layout& layout) {
    add_message_types<caf::id_block::rekindle>();
    load<caf::io::middleman>();
    load<caf::openssl::manager>();
    // CAF uses TLS keys only if these names are not empty; the calls for the files return the pair of
    // load_keys().
    openssl_cafile = openssl_certificate = openssl_key = layout.key_pair().string();
    // A control process does little work, so it has no thread per core, and idle threads sleep. (The default
    // policy polls for work at least a hundred times a second, at some percent of a core in each process.)
    set("scheduler.max-threads", 2);
    set("scheduler.policy", caf::atom("sharing"));
    // Messages are small: passing a message to another thread costs more than unpacking it.
    set("middleman.workers", 0);
  }
};

}  // namespace rekindle::actors
