// Random addresses of a product code as M-vectors and as sparse lists, and traces made of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "core/analysis/overlap.h"
#include "tests/cases/analysis/made_trace.h"

namespace slotscope::testing {

// All read and write addresses as M-vectors.
struct AddressProblem {
  int factors = 2, codes = 3, top_k = 4, slots = 9;
  int64_t tokens = 40, shift = 0;
  std::vector<std::vector<double>> r, w;  // [T][M], 0 where not kept
  std::vector<double> gamma;
  analysis::Addresses addresses;
};

// Softmaxes of random logits, the K largest products kept by a full sort, then moved by CAPE.
inline AddressProblem make_problem(int factors, int codes, int top_k, int64_t tokens, int64_t shift, unsigned seed) {
  AddressProblem p{.factors = factors, .codes = codes, .top_k = top_k, .tokens = tokens, .shift = shift};
  p.slots = 1;
  for (int u = 0; u < factors; ++u) p.slots *= codes;
  p.top_k = std::min(top_k, p.slots);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  auto routes = std::make_shared<HeadRoutes>();
  routes->slots = p.slots;
  routes->top_k = p.top_k;
  routes->rows = routes->tokens = tokens;
  analysis::Addresses& a = p.addresses;
  a.own_reads = true;
  a.read_k = p.top_k;
  a.code = {.factors = factors, .codes = codes, .shift = shift};
  for (int64_t t = 0; t < tokens; ++t) {
    for (const bool write : {false, true}) {
      std::vector<double> full(size_t(p.slots), 1);
      for (int u = 0, step = 1; u < factors; ++u, step *= codes) {
        std::vector<double> e;
        double sum = 0;
        for (int j = 0; j < codes; ++j) e.push_back(std::exp(1.5 * normal(random))), sum += e.back();
        for (int i = 0; i < p.slots; ++i) full[size_t(i)] *= e[size_t(i / step % codes)] / sum;
      }
      std::vector<int> order;
      for (int i = 0; i < p.slots; ++i) order.push_back(i);
      std::sort(order.begin(), order.end(), [&](int x, int y) { return full[size_t(x)] > full[size_t(y)]; });
      std::vector<double> kept(size_t(p.slots), 0);
      for (int k = 0; k < p.top_k; ++k) {
        const int64_t slot = ((order[size_t(k)] + shift * t) % p.slots + p.slots) % p.slots;
        kept[size_t(slot)] = full[size_t(order[size_t(k)])];
        (write ? routes->index : a.read_slot).push_back(uint32_t(slot));
        (write ? routes->weight : a.read_weight).push_back(full[size_t(order[size_t(k)])]);
      }
      (write ? p.w : p.r).push_back(kept);
    }
    p.gamma.push_back(normal(random));
  }
  a.gamma = p.gamma;
  a.write = std::move(routes);
  return p;
}

inline std::shared_ptr<const analysis::Addresses> gsu(const AddressProblem& p, double eps, bool mass_aware) {
  analysis::Addresses a = p.addresses;
  a.rule = {.known = true, .mass_aware = mass_aware, .eps = eps};
  return analysis::make_addresses(std::move(a));
}

// A trace of one RAM-Net layer (two heads with the addresses of `p`) and one attention layer.
inline MadeRun made_run(const AddressProblem& p, const std::vector<int64_t>& reads, const std::vector<double>& attention) {
  MadeLayer ramnet{.family = "ramnet", .counters = false};
  ramnet.attributes = {{"order", int64_t(p.factors)}, {"codes_per_factor", int64_t(p.codes)},
                       {"slot_order", std::string("factor0_least_significant")}, {"update_rule", std::string("gsu")},
                       {"cumulative", int64_t(0)}, {"state_eps", 1e-6}, {"readout", std::string("standard")},
                       {"cape_direction", p.shift}, {"cape_heads", std::vector<int64_t>{1}}, {"renormalize_topk", int64_t(0)}};
  const auto gates = gsu(p, 1e-6, false);
  std::vector<double> slot, weight, gamma, strength;
  for (int64_t t = 0; t < p.tokens; ++t)
    for (int h = 0; h < 2; ++h) {
      for (int k = 0; k < p.top_k; ++k) {
        slot.push_back(p.addresses.read_slot[size_t(t * p.top_k + k)]);
        weight.push_back(p.addresses.read_weight[size_t(t * p.top_k + k)]);
        strength.push_back(gates->write->strength[size_t(t * p.top_k + k)]);
      }
      gamma.push_back(p.gamma[size_t(t)]);
    }
  HeadRoutes routes = *gates->write;
  ramnet.heads = {routes, routes};
  ramnet.fields = {{"read_index", "T,H,K", {2, p.top_k}, slot}, {"read_route_weight", "T,H,K", {2, p.top_k}, weight},
                   {"write_strength", "T,H_r,K", {2, p.top_k}, strength}, {"gamma", "T,H", {2}, gamma}};
  MadeLayer full{.family = "attention", .route_kind = "append", .query_heads = 2, .slots = p.tokens, .top_k = 1};
  full.fields = {{"read_weight", "T',H,M", {2, p.tokens}, attention},
                 {"read_token", "T'", {}, std::vector<double>(reads.begin(), reads.end())}};
  MadeRun run{.tokens = p.tokens, .prompt = p.tokens, .layers = {ramnet, full}};
  run.roles.assign(size_t(p.tokens), 0);
  return run;
}

// Rows of causal attention of two heads at the tokens `reads`, [reads, 2, tokens].
inline std::vector<double> attention_rows(const std::vector<int64_t>& reads, int64_t tokens) {
  std::mt19937 random(5);
  std::vector<double> out;
  for (const int64_t row : reads)
    for (int h = 0; h < 2; ++h) {
      std::vector<double> p(size_t(tokens), 0);
      double sum = 0;
      for (int64_t s = 0; s <= row; ++s) sum += p[size_t(s)] = double(1 + random() % 100);
      for (const double v : p) out.push_back(v / sum);
    }
  return out;
}

}  // namespace slotscope::testing
