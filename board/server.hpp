// An HTTP/1.1 server for pages, in one thread (Boost.Beast). It never waits for a client: whoever is slow is
// cut off.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "board/access.hpp"

namespace rekindle::board {

struct Answer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8", body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The stream of api/live of one browser: server-sent events, until either side ends it.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // `text`: one or more events with their empty lines. A browser that reads too slowly is cut off.
  virtual void send(std::shared_ptr<const std::string> text) = 0;
  virtual bool is_open() const = 0;
  virtual void close() = 0;
};

// What the server asks for. All calls come from the thread of the io_context, and must not wait.
class Site {
 public:
  virtual ~Site() = default;
  virtual Decision decide(const Request& request) const = 0;
  // The answer may be given later, from the same thread.
  virtual void serve(const Decision& decision, std::function<void(Answer)> answer) = 0;
  // Whether this is an address of a stream: then the answer is one.
  virtual bool is_stream(const Decision& decision) const = 0;
  virtual void stream(const Decision& decision, std::shared_ptr<EventStream> stream) = 0;
};

struct ServerLimits {
  std::size_t connections = 256;  // one more ends the oldest that has shown no token
  std::size_t streams = 64;
  std::size_t request_bytes = 16384, unsent_bytes = std::size_t{4} << 20;
  unsigned request_seconds = 10;  // from the first byte of a request, or from the connection, to its end
  unsigned send_seconds = 30;
  // After the last answer of a connection: what is still read of the client, and how long.
  std::size_t drain_bytes = std::size_t{1} << 20;
  unsigned drain_seconds = 2;
};

class Server {
 public:
  Server(boost::asio::io_context& io, Site& site, ServerLimits limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Begins to listen. Port 0: a free one. The port.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// The header lines that every answer has: what a browser may do with it.
std::vector<std::pair<std::string, std::string>> security_headers();

}  // namespace rekindle::board
