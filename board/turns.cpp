#include "board/turns.hpp"

#include <boost/asio/post.hpp>
#include <utility>

namespace rekindle::board {

void take_turns(const boost::asio::any_io_executor& thread, std::deque<Turn> all,
                std::function<void()> done) {
  boost::asio::post(thread, [thread, all = std::move(all), done = std::move(done)]() mutable {
    if (all.empty()) return done();
    Turn next = std::move(all.front());
    all.pop_front();
    if (!next()) all.push_back(std::move(next));
    take_turns(thread, std::move(all), std::move(done));
  });
}

}  // namespace rekindle::board
