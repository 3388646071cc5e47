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
    // Names that are not empty: CAF asks for the files, and gets the pair that load_keys() has read.
    openssl_cafile = openssl_certificate = openssl_key = layout.key_pair().string();
    // A control process does little: no thread per core, and threads that have nothing to do sleep. (The
    // default policy looks for work a hundred times a second and more, at some percent of a core in each
    // process.)
    set("scheduler.max-threads", 2);
    set("scheduler.policy", caf::atom("sharing"));
    // Messages are small: handing each to another thread to be unpacked costs more than unpacking it.
    set("middleman.workers", 0);
  }
};

}  // namespace rekindle::actors
