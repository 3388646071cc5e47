// A server with the pages of a run directory, in a thread of its own.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "board/metrics_site.hpp"
#include "board/server.hpp"
#include "board/service.hpp"
#include "fixture.hpp"

namespace rekindle::board {

inline constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class ServerTest : public BoardTest {
 protected:
  void serve(ServerLimits limits = {}, bool one_run = true) {
    serve_folder(one_run ? layout_.root().path() : layout_.root().path().parent_path(), limits, one_run);
  }
  void serve_folder(const std::filesystem::path& folder, ServerLimits limits = {}, bool one_run = false) {
    service_ = std::make_unique<Service>(
        io_, ServiceOptions{.folder = folder, .one_run = one_run, .access = rules_});
    server_ = std::make_unique<Server>(io_, *service_, limits);
    listen();
  }
  // The address of --metrics-bind.
  void serve_metrics_alone() {
    service_ = std::make_unique<Service>(
        io_, ServiceOptions{.folder = layout_.root().path(), .one_run = true, .access = rules_});
    metrics_ = std::make_unique<MetricsSite>(*service_);
    server_ = std::make_unique<Server>(io_, *metrics_);
    listen();
  }
  void listen() {
    port_ = server_->listen("127.0.0.1", 0).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ServerTest() override {
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { io_.stop(); });
    thread_.join();
  }

  boost::asio::ip::tcp::socket connect() {
    boost::asio::ip::tcp::socket socket(client_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port_});
    return socket;
  }
  // Until the server ends the connection.
  static std::string rest_of(boost::asio::ip::tcp::socket& socket) {
    std::string text;
    boost::system::error_code error;
    boost::asio::read(socket, boost::asio::dynamic_buffer(text), error);
    return text;
  }
  std::string answer_to(const std::string& text) {
    boost::asio::ip::tcp::socket socket = connect();
    boost::system::error_code refused;  // it may be closed before all is written
    boost::asio::write(socket, boost::asio::buffer(text), refused);
    return rest_of(socket);
  }
  static std::string get(const std::string& target, const std::string& more = "",
                         const char* method = "GET") {
    return std::string(method) + " " + target +
           " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: rekindle=" + cookie_value(kToken) +
           "\r\n" + more + "\r\n";
  }

  static std::string scrape() {
    return "GET /metrics HTTP/1.1\r\nHost: any\r\nConnection: close\r\nAuthorization: Bearer " +
           std::string(kToken) + "\r\n\r\n";
  }

  AccessRules rules_{.token = kToken,
                     .cookie = "rekindle",
                     .cookie_value = cookie_value(kToken),
                     .hosts = {"localhost"},
                     .metrics_token = "",
                     .open_metrics = false};
  boost::asio::io_context io_, client_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<MetricsSite> metrics_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace rekindle::board
