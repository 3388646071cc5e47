#include "board/server.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <list>
#include <optional>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::board {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::vector<std::pair<std::string, std::string>> security_headers() {
  return {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
}

namespace {

class Session;

// What sessions share.
struct Shared {
  Shared(Site& site, ServerLimits limits) : site(site), limits(limits) {}
  Site& site;
  const ServerLimits limits;
  std::list<std::weak_ptr<Session>> sessions;  // the oldest first
  std::size_t streams = 0;
};

// One connection. It exists as long as an operation of it is under way.
class Session : public EventStream, public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {}
  ~Session() override {
    if (kind_ == Kind::kStream) --shared_->streams;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_->limits.request_bytes));
    parser_->body_limit(std::uint64_t{0});
    stream_.expires_after(std::chrono::seconds(shared_->limits.request_seconds));
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) return self->on_request();
      if (error == http::error::header_limit) return self->refuse(431, "too long");
      if (error == http::error::body_limit) return self->refuse(413, "requests have no body here");
      if (error.category() == http::make_error_code(http::error::bad_method).category() &&
          error != http::error::end_of_stream)
        return self->refuse(400, "not HTTP");
      self->close();
    });
  }

  void close() override {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    open_ = false;
  }
  // Has shown no token: may be ended for another connection.
  bool is_stranger() const { return kind_ == Kind::kStranger; }

  void send(std::shared_ptr<const std::string> text) override {
    if (!open_) return;
    unsent_bytes_ += text->size();
    if (unsent_bytes_ > shared_->limits.unsent_bytes) return close();
    unsent_.push_back(std::move(text));
    if (unsent_.size() == 1) write_next();
  }
  bool is_open() const override { return open_; }

 private:
  enum class Kind { kStranger, kKnown, kStream };

  void on_request() {
    const auto& message = parser_->get();
    Request request{.method = text_of(message.method_string()),
                    .target = text_of(message.target()),
                    .host = text_of(message[http::field::host]),
                    .cookie = text_of(message[http::field::cookie]),
                    .authorization = text_of(message[http::field::authorization]),
                    .ambiguous = message.count(http::field::host) != 1 ||
                                 message.count(http::field::transfer_encoding) > 0};
    const Decision decision = shared_->site.decide(request);
    const bool head = message.method() == http::verb::head;
    if (decision.known && kind_ == Kind::kStranger) kind_ = Kind::kKnown;
    if (decision.verdict == Verdict::kServe && !head && shared_->site.is_stream(decision))
      return begin_stream(decision);
    stream_.expires_never();  // the site's own time
    shared_->site.serve(decision, [self = shared_from_this(), head](const Answer& answer) {
      self->answer(answer, head, self->parser_->get().keep_alive());
    });
  }

  void refuse(unsigned status, const char* why) {
    answer({.status = status, .body = str(why, "\n")}, false, false);
  }

  void answer(const Answer& answer, bool head, bool keep_alive) {
    // Strangers do not keep connections.
    keep_alive = keep_alive && kind_ == Kind::kKnown;
    auto response =
        std::make_shared<http::response<http::string_body>>(static_cast<http::status>(answer.status), 11);
    for (const auto& [name, value] : security_headers()) response->set(name, value);
    response->set(http::field::content_type, answer.type);
    for (const auto& [name, value] : answer.headers) response->set(name, value);
    response->content_length(answer.body.size());
    response->keep_alive(keep_alive);
    if (!head) response->body() = answer.body;
    stream_.expires_after(std::chrono::seconds(shared_->limits.send_seconds));
    auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*response);
    const auto done = [self = shared_from_this(), response, serializer, keep_alive](error_code error,
                                                                                    std::size_t) {
      if (error) return self->close();
      keep_alive ? self->read() : self->finish();
    };
    // The length of HEAD's answer is the length of GET's.
    if (head)
      http::async_write_header(stream_, *serializer, done);
    else
      http::async_write(stream_, *serializer, done);
  }

  // The last answer is sent. What the client still sends is read and dropped, up to a limit: if it were
  // unread when the connection is closed, the client would be told of an error and might lose the answer.
  void finish() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::chrono::seconds(shared_->limits.drain_seconds));
    drain(shared_->limits.drain_bytes);
  }
  void drain(std::size_t most) {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(buffer_.max_size()),
                            [self = shared_from_this(), most](error_code error, std::size_t count) {
                              if (error || count >= most) return self->close();
                              self->drain(most - count);
                            });
  }

  void begin_stream(const Decision& decision) {
    if (shared_->streams >= shared_->limits.streams) return refuse(503, "too many open pages");
    ++shared_->streams;
    kind_ = Kind::kStream;
    stream_.expires_never();
    std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nX-Accel-Buffering: "
        "no\r\n";
    for (const auto& [name, value] : security_headers()) head += str(name, ": ", value, "\r\n");
    send(std::make_shared<std::string>(head + "\r\nretry: 2000\n\n"));
    watch_for_end();
    shared_->site.stream(decision, shared_from_this());
  }

  // A browser sends nothing more; the end of the connection is seen here.
  void watch_for_end() {
    stream_.socket().async_read_some(asio::buffer(&sink_, 1),
                                     [self = shared_from_this()](error_code error, std::size_t) {
                                       if (error) return self->close();
                                       self->close();
                                     });
  }

  void write_next() {
    stream_.expires_after(std::chrono::seconds(shared_->limits.send_seconds));
    asio::async_write(stream_, asio::buffer(*unsent_.front()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->close();
                        self->stream_.expires_never();
                        self->unsent_bytes_ -= self->unsent_.front()->size();
                        self->unsent_.pop_front();
                        if (!self->unsent_.empty()) self->write_next();
                      });
  }

  beast::tcp_stream stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_{32768};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::deque<std::shared_ptr<const std::string>> unsent_;
  std::size_t unsent_bytes_ = 0;
  Kind kind_ = Kind::kStranger;
  bool open_ = true;
  char sink_ = 0;
};

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  Impl(asio::io_context& io, Site& site, ServerLimits limits)
      : acceptor(io), again(io), shared(std::make_shared<Shared>(site, limits)) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // no descriptors left, say
        self->again.expires_after(std::chrono::milliseconds(200));
        return self->again.async_wait([self](error_code stopped) {
          if (!stopped) self->accept();
        });
      }
      self->make_room();
      auto session = std::make_shared<Session>(std::move(socket), self->shared);
      self->shared->sessions.push_back(session);
      session->read();
      self->accept();
    });
  }

  void make_room() {
    auto& sessions = shared->sessions;
    std::erase_if(sessions, [](const auto& weak) { return weak.expired(); });
    if (sessions.size() < shared->limits.connections) return;
    for (const bool strangers_only : {true, false}) {
      for (auto each = sessions.begin(); each != sessions.end(); ++each) {
        const auto session = each->lock();
        if (!session || (strangers_only && !session->is_stranger())) continue;
        session->close();
        sessions.erase(each);
        return;
      }
    }
  }

  tcp::acceptor acceptor;
  asio::steady_timer again;
  std::shared_ptr<Shared> shared;
};

Server::Server(asio::io_context& io, Site& site, ServerLimits limits)
    : impl_(std::make_shared<Impl>(io, site, limits)) {}

Server::~Server() {
  error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->again.cancel();
  for (const auto& weak : impl_->shared->sessions)
    if (const auto session = weak.lock()) session->close();
}

Result<std::uint16_t> Server::listen(const std::string& address, std::uint16_t port) {
  error_code error;
  const auto where = asio::ip::make_address(address, error);
  tcp::acceptor& acceptor = impl_->acceptor;
  const tcp::endpoint endpoint(where, port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(ExitCode::kConfig, str("cannot listen on ", address, " port ", port, ": ", error.message()),
                port == 0 ? "" : "port 0 takes a free one");
  impl_->accept();
  return acceptor.local_endpoint().port();
}

}  // namespace rekindle::board
