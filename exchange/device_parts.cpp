#include "exchange/device_parts.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace rekindle::exchange {

Result<std::span<float>> DeviceParts::slot(int i) {
  while (slots.size() <= static_cast<std::size_t>(i)) {
    REKINDLE_TRY(device::Memory made,
                 place.device->allocate(std::max<std::size_t>(1, floats) * sizeof(float)));
    slots.push_back(std::move(made));
  }
  return slots[static_cast<std::size_t>(i)].floats().first(floats);
}

// Each ends in a thread of its own, and NCCL has no call that waits, so they are looked at again and again.
void DeviceParts::free_retired(const std::function<bool()>& aborted) {
  for (const RetiredLink& each : retired) each.link->abort();
  const auto until = std::chrono::steady_clock::now() + limits.end;
  for (RetiredLink& each : retired) {
    while (!each.link->ended() && !each.was_waited_for && !aborted() &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    each.was_waited_for = true;
  }
  std::erase_if(retired, [](const RetiredLink& each) { return each.link->ended(); });
}

}  // namespace rekindle::exchange
