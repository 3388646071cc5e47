#include "protocol/job.hpp"

#include <cmath>

namespace rekindle::protocol {

nlohmann::json identity_of(const Job& job) {
  nlohmann::json identity = {{"model", job.model},
                             {"dataset", job.dataset},
                             {"data_hash", job.data_hash},
                             {"classes", job.classes},
                             {"seed", job.seed},
                             {"micro_batches", job.micro_batches},
                             {"batch_size", job.batch_size},
                             {"optimizer", job.optimizer},
                             {"lr", job.lr},
                             {"weight_decay", job.weight_decay},
                             {"lr_step", job.lr_step},
                             {"lr_gamma", job.lr_gamma},
                             {"image_size", job.image_size},
                             {"augment", job.augment},
                             {"dropout", job.dropout},
                             {"precision", job.precision}};
  if (job.optimizer == "sgd") identity["momentum"] = job.momentum;
  if (!job.init.empty()) identity["init"] = job.init;
  if (job.rates_since > 0) identity["rates_since"] = job.rates_since;
  if (!job.earlier_rates.empty()) identity["earlier_rates"] = job.earlier_rates;
  return identity;
}

std::string first_difference(const nlohmann::json& a, const nlohmann::json& b) {
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || b.at(key) != value) return key;
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return key;
  }
  return "";
}

std::uint64_t default_micro_batches(std::uint64_t batch_size) {
  std::uint64_t parts = 32;
  while (parts > 1 && (batch_size % parts != 0 || batch_size / parts < 8)) parts /= 2;
  return parts;
}

std::uint64_t epoch_of(const Job& job, std::uint64_t step) {
  return job.train_samples == 0 ? 0 : step * job.batch_size / job.train_samples;
}

void take_rates(nlohmann::json& identity, const nlohmann::json& from) {
  for (const char* key : kRateKeys) {
    identity.erase(key);
    if (from.contains(key)) identity[key] = from.at(key);
  }
}

std::vector<Rates> rates_until(const nlohmann::json& identity, std::uint64_t step) {
  auto all = identity.value("earlier_rates", std::vector<Rates>());
  all.push_back({identity.value("rates_since", std::uint64_t{0}), identity.value("lr", 0.0),
                 identity.value("lr_step", std::uint64_t{0}), identity.value("lr_gamma", 0.0)});
  std::erase_if(all, [step](const Rates& rates) { return rates.since >= step; });
  return all;
}

double learning_rate(const Job& job, std::uint64_t step) {
  Rates rates{job.rates_since, job.lr, job.lr_step, job.lr_gamma};
  if (step < job.rates_since) {
    for (const Rates& earlier : job.earlier_rates) {
      if (earlier.since <= step) rates = earlier;
    }
  }
  double lr = rates.lr;
  for (std::uint64_t i = 0, n = epoch_of(job, step) / rates.lr_step; i < n; ++i) lr *= rates.lr_gamma;
  return lr;
}

std::uint64_t steps_for_epochs(const Job& job, std::uint64_t epochs) {
  return (epochs * job.train_samples + job.batch_size - 1) / job.batch_size;
}

bool evaluation_due(const Job& job, std::uint64_t step) {
  if (step == 0 || job.test_samples == 0) return false;
  return step == job.steps || epoch_of(job, step) != epoch_of(job, step - 1);
}

}  // namespace rekindle::protocol
