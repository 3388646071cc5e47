// Converts messages of the coordinator to the types of the exchange.
#pragma once

#include "exchange/exchange.hpp"
#include "protocol/job.hpp"
#include "protocol/messages.hpp"

namespace rekindle::trainer {

protocol::Address to_address(const exchange::Endpoint& endpoint);
exchange::Plan plan_of(const protocol::Job& job, const protocol::Start& start);

}  // namespace rekindle::trainer
