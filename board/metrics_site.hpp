// A server's site that has /metrics and nothing else (--metrics-bind).
#pragma once

#include "board/server.hpp"

namespace rekindle::board {

class MetricsSite : public Site {
 public:
  // `pages` outlives this object, and answers.
  explicit MetricsSite(Site& pages) : pages_(pages) {}

  Decision decide(const Request& request) const override {
    Decision decision = pages_.decide(request);
    // The page is not to be had at this address, with no token.
    const bool is_answer = decision.verdict == Verdict::kServe || decision.verdict == Verdict::kExchange;
    if (is_answer && (decision.path != "/metrics" || decision.verdict == Verdict::kExchange))
      decision.verdict = Verdict::kBadRequest;
    return decision;
  }
  void serve(const Decision& decision, std::function<void(Answer)> answer) override {
    pages_.serve(decision, std::move(answer));
  }
  bool is_stream(const Decision&) const override { return false; }
  void stream(const Decision&, std::shared_ptr<EventStream>) override {}

 private:
  Site& pages_;
};

}  // namespace rekindle::board
