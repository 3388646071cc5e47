// Long work in parts, in a thread that others use, too: after each part comes what waits for this thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>

namespace rekindle::board {

// Does one part of some work, and returns whether nothing is left.
using Turn = std::function<bool()>;

// The first part of each work in the order of `all`, then the second part of each that has one, and so on.
// Then `done`, in the same thread. Each part is posted when the one before it has ended.
void take_turns(const boost::asio::any_io_executor& thread, std::deque<Turn> all, std::function<void()> done);

}  // namespace rekindle::board
