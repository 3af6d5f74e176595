// A synthetic run for view tests: deterministic, shaped like a real password run. 520 byte tokens (512 prompt
// + 8 answer), 4 x 4 heads of 64 slots, top-8, spans needle, key, query, answer, roles. Layer 3 head 0 has 10
// retrieval-only, 23 shared, 19 other and 12 empty slots; its key writes are strong, everything else is weak.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "views/view.h"

namespace slotscope::testing {

// splitmix64: the same numbers on every machine.
struct DemoRandom {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double unit() { return double(next() >> 11) * 0x1p-53; }
  int below(int n) { return int(next() % uint64_t(n)); }
};

inline std::string demoPrompt() {
  return "er, love my lovely queen;\nAnd kiss your princely nephew, brothers both.\nCLARENCE:\nThe duty that "
         "I owe unto your "
         "majesty\nI seal upon The password is DNxril3R. Remember it.  the lips of this sweet babe.\nQUEEN "
         "ELIZABETH:\nThanks, "
         "noble Clarence; worthy brother, thanks.\nGLOUCESTER:\nAnd, that I love the tree from whence thou "
         "sprang'st,\nWitness "
         "the loving kiss I give the fruit.\nKING EDWARD IV:\nNow am I seated as my soul delights,\nHaving "
         "my country's peace and "
         "brothers' loves.\nCLAR Now tell me the password = ";
}

// The run's description: tokens, bytes, spans, roles, answer. `tokens` > 520 repeats the haystack behind the
// needle.
inline trace::RunInfo demoRun(int64_t tokens = 520) {
  const std::string key = "DNxril3R", query = " Now tell me the password = ", needle = " The password is ";
  std::string text = demoPrompt();
  const int64_t prompt_bytes = tokens - 1 - int64_t(key.size());
  const std::string tail = text.substr(text.size() - query.size());
  text.resize(text.size() - query.size());
  const std::string more = text.substr(text.find("QUEEN"));
  while (int64_t(text.size() + tail.size()) < prompt_bytes) text += more;
  text.resize(size_t(std::max<int64_t>(prompt_bytes - int64_t(tail.size()), 0)));
  text += tail;

  trace::RunInfo run;
  run.name = "password · " + std::to_string(tokens - int64_t(key.size()));
  run.has_text = true;
  run.text = text;
  run.has_answer = true;
  run.answer = key;
  run.exact = true;
  run.output_text = key;
  run.tokens = run.planned_tokens = tokens;
  run.byte_offsets = {0};
  const auto add = [&](const std::string& bytes, int id, bool special) {
    run.ids.push_back(id);
    run.bytes.insert(run.bytes.end(), bytes.begin(), bytes.end());
    run.byte_offsets.push_back(int64_t(run.bytes.size()));
    run.special.push_back(special);
    run.position.push_back(int64_t(run.position.size()));
    run.roles.push_back(0);
  };
  add("<bos>", 256, true);
  for (const char c : text) add(std::string(1, c), static_cast<unsigned char>(c), false);
  run.prompt_tokens = int64_t(run.ids.size());
  for (const char c : key) add(std::string(1, c), static_cast<unsigned char>(c), false);
  run.tokens = run.planned_tokens = int64_t(run.ids.size());
  for (int64_t i = 0; i < run.prompt_tokens; ++i) {
    run.char_begin.push_back(std::max<int64_t>(0, i - 1));
    run.char_end.push_back(i);
  }
  const int64_t at = int64_t(text.find(needle)) + 1, key_at = at + int64_t(needle.size());
  if (text.find(needle + key) != std::string::npos) {
    run.spans.push_back({"needle", at, key_at + int64_t(key.size() + std::strlen(". Remember it. "))});
    run.spans.push_back({"key", key_at, key_at + int64_t(key.size())});
    for (size_t i = 0; i < key.size(); ++i) run.roles[size_t(key_at) + i] = 1;
  }
  run.spans.push_back({"query", run.prompt_tokens - int64_t(query.size()), run.prompt_tokens});
  run.spans.push_back({"answer", run.prompt_tokens, run.tokens});
  for (int64_t t = run.prompt_tokens; t < run.tokens; ++t) run.roles[size_t(t)] = 1;

  run.candidates = 4;
  for (size_t i = 0; i <= key.size(); ++i) {
    const int id = i < key.size() ? static_cast<unsigned char>(key[i]) : 257;
    run.output_ids.push_back(id);
    for (int c = 0; c < 4; ++c) {
      run.top_ids.push_back(c == 0 ? id : 'a' + int(i) + 2 * c);
      run.top_logprob.push_back(c == 0 ? -1e-4 : -9.5 - c);
    }
  }
  for (int layer = 0; layer < 4; ++layer) {
    trace::LayerSpec spec;
    spec.index = layer, spec.family = "raven", spec.route_kind = "sparse";
    spec.heads = spec.route_heads = 4, spec.slots = 64, spec.top_k = 8;
    run.layers.push_back(spec);
  }
  return run;
}

// Routes of one head. retrieval_slots: how many slots are kept for retrieval tokens alone.
inline HeadRoutes demoRoutes(const trace::RunInfo& run, int layer, int head, int slots = 64, int top_k = 8,
                             int retrieval_slots = 10) {
  DemoRandom random{uint64_t(1000003 * layer + 7919 * head + slots + 17)};
  std::vector<int> name(static_cast<size_t>(slots));
  for (int i = 0; i < slots; ++i) name[size_t(i)] = i;
  for (int i = slots - 1; i > 0; --i) std::swap(name[size_t(i)], name[size_t(random.below(i + 1))]);
  const int shared = slots * 23 / 64, other = slots * 19 / 64;
  HeadRoutes r;
  r.layer = layer, r.head = head, r.slots = slots, r.top_k = top_k, r.rows = r.tokens = run.tokens;
  std::vector<uint8_t> used(static_cast<size_t>(slots));
  std::vector<int> chosen;
  for (int64_t t = 0; t < run.tokens; ++t) {
    const bool key = run.roles[size_t(t)] == 1;
    std::fill(used.begin(), used.end(), 0);
    chosen.clear();
    while (int(chosen.size()) < top_k) {
      // Popularity falls off exponentially inside each group.
      const double u = random.unit(), fall = -std::log(1 - 0.999 * random.unit());
      int at;
      if (key) {
        at = u < 0.45 && retrieval_slots > 0 ? random.below(retrieval_slots)
                                             : retrieval_slots + random.below(shared);
      } else {
        at = u < 0.3 ? retrieval_slots + int(fall * shared / 5) % shared
                     : retrieval_slots + shared + int(fall * other / 5) % other;
      }
      if (used[size_t(at)]) {
        if (random.unit() < 0.85) continue;
        at = retrieval_slots + (key ? 0 : shared) + random.below(key ? shared : other);
        if (used[size_t(at)]) continue;
      }
      used[size_t(at)] = 1;
      chosen.push_back(name[size_t(at)]);
    }
    const double decay = key && t < run.prompt_tokens ? -30 - 14 * random.unit()
                         : key                        ? -1.2
                                                      : -0.2 - 0.3 * random.unit();
    double sum = 0;
    std::vector<double> w(static_cast<size_t>(top_k));
    for (double& v : w) sum += v = 0.3 + random.unit();
    std::sort(w.rbegin(), w.rend());
    for (int k = 0; k < top_k; ++k) {
      r.index.push_back(uint32_t(chosen[size_t(k)]));
      r.weight.push_back(w[size_t(k)] / sum);
      r.strength.push_back(-std::expm1(decay * w[size_t(k)] / sum));
    }
    r.log_decay.push_back(decay);
  }
  return r;
}

inline std::shared_ptr<const analysis::HeadData> demoHead(const trace::RunInfo& run, int layer = 3,
                                                          int head = 0, int slots = 64, int top_k = 8,
                                                          int retrieval_slots = 10) {
  auto data = std::make_shared<analysis::HeadData>();
  data->layer = layer, data->head = head;
  data->routes = demoRoutes(run, layer, head, slots, top_k, retrieval_slots);
  data->writes = analysis::group_writes(data->routes);
  std::vector<uint32_t> esl(static_cast<size_t>(slots));
  for (size_t i = 0; i < data->routes.index.size(); ++i)
    esl[data->routes.index[i]] += data->routes.weight[i] != 0;
  data->esl = analysis::analyse_esl(esl, esl, run.tokens);
  data->allocation = analysis::allocate(data->routes, run.roles);
  data->statistics = analysis::routing_statistics(data->routes, {}, 0);
  // Reads at the query and at the answer: mostly from the retrieval slots.
  data->read_heads = {head};
  DemoRandom random{uint64_t(99 + layer * 4 + head)};
  for (int64_t t = run.prompt_tokens - 1; t < run.tokens; ++t) {
    data->read_token.push_back(t);
    double sum = 0;
    std::vector<double> p(static_cast<size_t>(slots));
    for (int i = 0; i < slots; ++i) {
      const bool kept = data->allocation.slot_class[size_t(i)] == analysis::SlotClass::retrieval;
      sum += p[size_t(i)] = (kept ? 1.0 : 0.05) * random.unit();
    }
    for (const double v : p) data->read_weight.push_back(v / sum);
  }
  return data;
}

// The whole run with its summary: head scores fall from layer 3 head 0 on.
inline std::shared_ptr<const views::RunData> demoRunData(int64_t tokens = 520) {
  auto data = std::make_shared<views::RunData>();
  data->own_info = std::make_shared<trace::RunInfo>(demoRun(tokens));
  data->model_name = QStringLiteral("raven-passkey");
  data->device_text = QStringLiteral("CPU · float32");
  analysis::RunSummary& s = data->summary;
  s.layers = s.heads = 4;
  for (int layer = 0; layer < 4; ++layer)
    for (int head = 0; head < 4; ++head) {
      analysis::HeadSummary line;
      line.layer = layer, line.head = head, line.mixer = "raven", line.has_routes = true;
      const int kept = layer == 3 && head == 0   ? 10
                       : layer == 3 && head == 3 ? 7
                       : layer == 2 && head == 2 ? 3
                       : layer == 2 && head == 1 ? 1
                                                 : 0;
      const auto d = demoHead(*data->own_info, layer, head, 64, 8, kept);
      line.esl = d->esl, line.allocation = d->allocation, line.statistics = d->statistics;
      for (const double v : d->routes.strength)
        line.mean_write_strength += v / double(d->routes.strength.size());
      line.key_survival = line.read_mass_on_key = line.allocation.head_score;
      s.head_list.push_back(std::move(line));
    }
  for (int i = 0; i < 16; ++i) s.by_score.push_back(i);
  const auto score = [&](int i) {
    const double v = s.head_list[size_t(i)].allocation.head_score;
    return std::isnan(v) ? -1.0 : v;
  };
  std::stable_sort(s.by_score.begin(), s.by_score.end(), [&](int a, int b) { return score(a) > score(b); });
  const auto* key = data->own_info->span("key");
  s.first = {3, 0, s.head_list[12].allocation.order.front(),
             key ? key->begin + 2 : data->own_info->tokens - 1};
  return data;
}

}  // namespace slotscope::testing
