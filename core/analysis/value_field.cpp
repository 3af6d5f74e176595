#include "core/analysis/value_field.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/analysis/product_code.h"
#include "core/analysis/value_field_parts.h"
#include "core/error.h"
#include "kernels/route_counters.h"
#include "kernels/value_field.h"

namespace slotscope::analysis {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr int kRowsPerStep = 4;            // rows of cells between two looks at the cancel flag
constexpr size_t kMostCached = 8u << 20;  // kept addresses of all panels together, 12 bytes each

std::vector<double> centres(double from, double to, int n) {
  std::vector<double> at(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) at[size_t(i)] = from + (to - from) * (i + 0.5) / n;
  return at;
}

}  // namespace

FieldAxes field_axes(const FieldSettings& settings, std::vector<double> x, std::vector<double> y) {
  FieldAxes axes;
  axes.width = settings.space == FieldSpace::torus ? 2 : 1;
  const auto parts = [&](const std::vector<double>& at, double radius) {
    if (axes.width == 1) return at;
    std::vector<double> part;
    for (const double angle : at) part.push_back(radius * std::cos(angle)), part.push_back(radius * std::sin(angle));
    return part;
  };
  axes.x_part = parts(x, settings.query_radius[0]), axes.y_part = parts(y, settings.query_radius[1]);
  axes.x = std::move(x), axes.y = std::move(y);
  return axes;
}

std::vector<double> field_point(const FieldKey& key, FieldSpace space) {
  if (space == FieldSpace::plane) return {key.x, key.y};
  return {key.radius[0] * std::cos(key.x), key.radius[0] * std::sin(key.x), key.radius[1] * std::cos(key.y),
          key.radius[1] * std::sin(key.y)};
}

FieldKey field_key(const std::vector<double>& point, FieldSpace space) {
  FieldKey key;
  if (space == FieldSpace::plane) {
    key.x = point[0], key.y = point[1];
    return key;
  }
  const auto angle = [](double x, double y) {
    const double a = std::atan2(y, x);
    return a < 0 ? a + kTurn : a;
  };
  key.x = angle(point[0], point[1]), key.y = angle(point[2], point[3]);
  key.radius = {std::hypot(point[0], point[1]), std::hypot(point[2], point[3])};
  return key;
}

std::vector<double> part_scores(const std::vector<double>& part, int width, const std::vector<double>& points, int from,
                                double scale) {
  const size_t w = size_t(width), n = part.size() / w, count = points.size() / (2 * w);
  std::vector<double> score(n * count);
  for (size_t i = 0; i < n; ++i)
    for (size_t s = 0; s < count; ++s) {
      double sum = 0;
      for (size_t k = 0; k < w; ++k) sum += part[i * w + k] * points[s * 2 * w + size_t(from) + k];
      score[i * count + s] = sum * scale;
    }
  return score;
}

std::vector<double> code_logits(const std::vector<double>& part, int width, int codes, int axis, double beta) {
  const size_t w = size_t(width), n = part.size() / w, d = size_t(codes);
  std::vector<double> logit(n * d);
  const CircularCodebook book = circular_codebook(codes);
  for (size_t j = 0; j < d; ++j) {
    const double x = book.cos[j], y = book.sin[j];
    for (size_t i = 0; i < n; ++i)
      logit[i * d + j] = beta * (w == 2 ? x * part[2 * i] + y * part[2 * i + 1] : (axis == 0 ? x : y) * part[i]);
  }
  return logit;
}

namespace {

// Arrays of panels that nobody has any more. The next panels get them, because the first touch of new memory takes longer than
// a GPU takes to fill it. Panels may be given up by another thread than the one that computes.
class SpareArrays {
 public:
  // Of n elements, values as they come.
  std::vector<double> take(size_t n) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(arrays_.begin(), arrays_.end(), [n](const auto& a) { return a.size() == n; });
    if (at == arrays_.end()) return std::vector<double>(n);
    std::vector<double> array = std::move(*at);
    arrays_.erase(at);
    held_ -= n;
    return array;
  }
  void give(std::vector<double>&& array) noexcept {
    const std::lock_guard lock(mutex_);
    if (array.empty() || array.size() > kMost) return;
    try {
      held_ += array.size();
      arrays_.push_back(std::move(array));
      while (held_ > kMost) held_ -= arrays_.front().size(), arrays_.pop_front();
    } catch (const std::bad_alloc&) {
      held_ -= array.size();
    }
  }

 private:
  static constexpr size_t kMost = size_t(1) << 24;  // elements: 128 MiB, a figure of 24 panels of 512 x 512
  std::mutex mutex_;
  std::list<std::vector<double>> arrays_;
  size_t held_ = 0;
};

}  // namespace

struct FieldCache::Data {
  struct Entry {
    std::vector<double> logit_x, logit_y;  // what the addresses follow from, with K and the flag
    int64_t top_k = 0;
    int factors = 0;
    bool nearest_only = false;
    std::vector<int32_t> slot;
    std::vector<double> weight;
  };
  std::list<Entry> entries;  // the latest used first
  std::unique_ptr<kernels::FieldGpu> gpu;
  std::shared_ptr<SpareArrays> spare = std::make_shared<SpareArrays>();
};
FieldCache::FieldCache() : data(std::make_unique<Data>()) {}
FieldCache::~FieldCache() = default;

namespace {

// Calls f(0) .. f(count - 1), each of `work` steps: from a million steps on by several threads. Every call is one thread's, so
// that sums keep their order. f does not throw.
template <class F>
void spread(size_t count, size_t work, const F& f) {
  const size_t most = count * work < (size_t(1) << 20) ? 1 : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i; (i = next++) < count;) f(i);
  };
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(most, count)) others.emplace_back(run);
  run();
}

// Fills a panel's field with full attention over `keys`; false: asked to stop.
class Evaluator {
 public:
  Evaluator(const FieldSettings& settings, FieldAxes axes, Progress* progress, FieldCache* cache, kernels::FieldGpu* gpu)
      : s_(settings), axes_(std::move(axes)), progress_(progress), cache_(cache), gpu_(gpu), nx_(int(axes_.x.size())),
        ny_(int(axes_.y.size())), cells_(size_t(nx_) * size_t(ny_)), C_(size_t(settings.channels)) {}

  ~Evaluator() {
    if (gpu_) gpu_->discard();  // fields that were given up
  }
  Evaluator(const Evaluator&) = delete;

  bool stopped() const { return progress_ && progress_->cancel_requested(); }

  // What the GPU still owes to panels is in them afterwards.
  void finish() {
    if (gpu_) gpu_->finish();
    std::vector<Pending*> panels;
    for (Pending& p : pending_) panels.push_back(&p);
    spread(panels.size(), cells_, [&](size_t i) { describe(*panels[i]); });
    pending_.clear();
  }

  // On the GPU the panel's arrays are filled, and its sums known, only after finish.
  std::shared_ptr<FieldResult> panel(const FieldPanel& p, double row) {
    auto result = new_result();
    const double star = beta_star_of_tau(s_.tau);
    bool done = false;
    switch (p.kind) {
      case FieldKind::full_attention: done = attention(s_.keys, *result); break;
      case FieldKind::quantised: done = attention(quantised_keys(s_, p), *result); break;
      case FieldKind::linear_elu: done = elu(*result); break;
      case FieldKind::linear_features: {
        const auto terms = feature_terms(s_, p, axes_);
        done = exponential(terms, terms.weight.data(), *result);
        break;
      }
      case FieldKind::ramnet: done = memory(p, row * p.beta_read * star, row * p.beta_write * star, result); break;
    }
    return done ? result : nullptr;
  }

 private:
  std::vector<double> array(size_t n) { return cache_ ? cache_->data->spare->take(n) : std::vector<double>(n); }
  // Its arrays go back to the cache, if that is still there, when the last owner gives it up.
  std::shared_ptr<FieldResult> new_result() {
    std::weak_ptr<SpareArrays> spare;
    if (cache_) spare = cache_->data->spare;
    std::shared_ptr<FieldResult> result(new FieldResult, [spare](FieldResult* r) {
      if (const auto kept = spare.lock()) kept->give(std::move(r->value)), kept->give(std::move(r->read_mass));
      delete r;
    });
    result->value = array(cells_ * C_);
    return result;
  }

  template <class Rows>
  bool by_rows(const Rows& rows) {
    for (int first = 0; first < ny_; first += kRowsPerStep) {
      if (stopped()) return false;
      rows(first, std::min(first + kRowsPerStep, ny_));
    }
    return !stopped();
  }

  bool exponential(const FieldTerms& terms, const double* weight, FieldResult& result) {
    kernels::ExponentialField<double> in;
    in.score_x = terms.score_x.data(), in.score_y = terms.score_y.data();
    in.payload = terms.payload.data(), in.weight = weight;
    in.nx = nx_, in.ny = ny_, in.terms = int(terms.payload.size() / C_), in.channels = s_.channels;
    in.field = result.value.data();
    if (gpu_ && kernels::FieldGpu::takes(in)) {
      gpu_->start(in);
      return !stopped();
    }
    return by_rows([&](int first, int last) { kernels::exponential_field_cpu(in, first, last); });
  }

  bool attention(std::vector<FieldKey> keys, FieldResult& result) {
    std::vector<double> points;
    FieldTerms terms;
    for (const FieldKey& key : keys) {
      const auto point = field_point(key, s_.space);
      points.insert(points.end(), point.begin(), point.end());
      terms.payload.insert(terms.payload.end(), key.value.begin(), key.value.begin() + s_.channels);
    }
    terms.score_x = part_scores(axes_.x_part, axes_.width, points, 0, 1 / s_.tau);
    terms.score_y = part_scores(axes_.y_part, axes_.width, points, axes_.width, 1 / s_.tau);
    result.stored = std::move(keys);
    return exponential(terms, nullptr, result);
  }

  // phi(x) = elu(x) + 1 works on every coordinate alone, so numerator and divisor are sums of an x part and a y part.
  bool elu(FieldResult& result) {
    const auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    const size_t w = size_t(axes_.width), wide = C_ + 1;
    std::vector<double> sum(2 * w * wide);  // per coordinate: sum phi(k) v, sum phi(k)
    for (const FieldKey& key : s_.keys) {
      const auto point = field_point(key, s_.space);
      for (size_t k = 0; k < 2 * w; ++k)
        for (size_t c = 0; c < wide; ++c) sum[k * wide + c] += phi(point[k]) * (c < C_ ? key.value[c] : 1);
    }
    const auto fold = [&](const std::vector<double>& part, size_t from) {
      std::vector<double> folded(part.size() / w * wide);
      for (size_t i = 0; i < part.size(); ++i)
        for (size_t c = 0; c < wide; ++c) folded[i / w * wide + c] += phi(part[i]) * sum[(from + i % w) * wide + c];
      return folded;
    };
    const auto x = fold(axes_.x_part, 0), y = fold(axes_.y_part, w);
    for (size_t iy = 0; iy < size_t(ny_); ++iy)
      for (size_t ix = 0; ix < size_t(nx_); ++ix)
        for (size_t c = 0; c < C_; ++c)
          result.value[(iy * size_t(nx_) + ix) * C_ + c] =
              (x[ix * wide + c] + y[iy * wide + c]) / (x[ix * wide + C_] + y[iy * wide + C_]);
    return !stopped();
  }

  bool memory(const FieldPanel& p, double beta_read, double beta_write, const std::shared_ptr<FieldResult>& made) {
    FieldResult& result = *made;
    FieldMemory stored = write_memory(s_, p, beta_write);
    kernels::AddressField<double> in;
    in.nearest_only = std::isinf(beta_read);
    const double beta = in.nearest_only ? 1 : beta_read;
    const auto logit_x = code_logits(axes_.x_part, axes_.width, p.codes, 0, beta);
    const auto logit_y = code_logits(axes_.y_part, axes_.width, p.codes, 1, beta);
    in.logit_x = logit_x.data(), in.logit_y = logit_y.data();
    in.mass = stored.mass.data(), in.value = stored.state.data();
    in.nx = nx_, in.ny = ny_, in.channels = s_.channels;
    in.factors = field_factors(s_.space), in.codes = p.codes, in.top_k = p.top_k;
    in.mass_aware = p.mass_aware, in.divide = p.divide;
    in.field = result.value.data();
    result.read_mass = array(cells_);
    in.read_mass = result.read_mass.data();
    Pending& pending = pending_.emplace_back(Pending{made, std::vector<uint8_t>(cells_)});
    in.empty = pending.empty.data();
    const bool all = p.top_k >= int64_t(stored.mass.size()), on_gpu = gpu_ && kernels::FieldGpu::takes(in);
    kernels::AddressReads<double> known;
    if (!all && !on_gpu && cache_ && cells_ * size_t(p.top_k) <= kMostCached / 2) {
      const auto* entry = cached(in, logit_x, logit_y);
      if (!entry) return false;
      known = {entry->slot.data(), entry->weight.data()};
    }
    // All slots share work between rows of cells, and are quick.
    if (on_gpu)
      gpu_->start(in);
    else if (all)
      kernels::address_field_cpu(in, 0, ny_);
    else if (!by_rows([&](int first, int last) { kernels::address_field_cpu(in, first, last, known); }))
      return false;
    result.mean_write_mass = stored.mean_write_mass;
    result.written = std::count_if(stored.mass.begin(), stored.mass.end(), [](double m) { return m > 0; });
    result.mass = std::move(stored.mass), result.state = std::move(stored.state);
    return !stopped();
  }

  // A memory's panel that is not described yet.
  struct Pending {
    std::shared_ptr<FieldResult> result;
    std::vector<uint8_t> empty;
  };
  void describe(Pending& p) const {
    double sum = 0;
    for (const double m : p.result->read_mass) sum += m;
    p.result->mean_read_mass = sum / double(cells_);
    p.result->empty_cells = std::count(p.empty.begin(), p.empty.end(), uint8_t(1));
  }

  // The kept addresses of all cells, from the cache or made and put there. Null: asked to stop.
  const FieldCache::Data::Entry* cached(const kernels::AddressField<double>& in, const std::vector<double>& logit_x,
                                        const std::vector<double>& logit_y) {
    auto& entries = cache_->data->entries;
    for (auto at = entries.begin(); at != entries.end(); ++at)
      if (at->top_k == in.top_k && at->factors == in.factors && at->nearest_only == in.nearest_only && at->logit_x == logit_x &&
          at->logit_y == logit_y) {
        entries.splice(entries.begin(), entries, at);
        return &entries.front();
      }
    FieldCache::Data::Entry made{logit_x, logit_y, in.top_k, in.factors, in.nearest_only, {}, {}};
    made.slot.resize(cells_ * size_t(in.top_k)), made.weight.resize(made.slot.size());
    if (!by_rows([&](int first, int last) { kernels::address_reads_cpu(in, made.slot.data(), made.weight.data(), first, last); }))
      return nullptr;
    entries.push_front(std::move(made));
    size_t total = 0;
    for (auto at = entries.begin(); at != entries.end();)
      at = (total += at->slot.size()) > kMostCached ? entries.erase(at) : std::next(at);
    return &entries.front();
  }

  const FieldSettings& s_;
  FieldAxes axes_;
  Progress* progress_;
  FieldCache* cache_;
  kernels::FieldGpu* gpu_;
  int nx_, ny_;
  size_t cells_, C_;
  std::list<Pending> pending_;
};

double rmse(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / double(a.size()));
}

void require(const FieldSettings& settings) {
  if (const std::string problem = field_problem(settings); !problem.empty())
    throw Error({.item = "value field", .found = problem}, Error::Kind::usage);
}

std::shared_ptr<const ValueField> evaluate(const FieldSettings& settings, FieldAxes axes, Progress* progress, FieldCache* cache,
                                           kernels::FieldGpu* gpu) {
  auto field = std::make_shared<ValueField>();
  field->settings = settings;
  field->beta_star = beta_star_of_tau(settings.tau);
  field->on_gpu = gpu != nullptr;
  field->x = axes.x, field->y = axes.y;
  Evaluator evaluator(settings, std::move(axes), progress, cache, gpu);
  field->reference = evaluator.panel({.kind = FieldKind::full_attention}, 1);
  const size_t columns = settings.columns.size();
  field->panels.resize(settings.rows.size() * columns);
  std::vector<std::shared_ptr<FieldResult>> made;
  bool stopped = !field->reference;
  for (size_t column = 0; column < columns && !stopped; ++column) {
    const FieldPanel& p = settings.columns[column];
    for (size_t row = 0; row < settings.rows.size() && !stopped; ++row) {
      auto& place = field->panels[row * columns + column];
      if (p.kind == FieldKind::full_attention) {
        place = field->reference;
      } else if (p.kind != FieldKind::ramnet && row > 0) {
        place = field->panels[column];  // beta is nothing to it
      } else {
        made.push_back(evaluator.panel(p, settings.rows[row]));
        place = made.back();
        stopped = !place;
      }
    }
  }
  if (stopped) return nullptr;  // the evaluator forgets what is under way: the panel that stopped has gone
  evaluator.finish();
  spread(made.size(), field->reference->value.size(), [&](size_t i) { made[i]->rmse = rmse(made[i]->value, field->reference->value); });
  return field;
}

// Fewer cells than this are ready on the CPU before a GPU is asked.
constexpr int64_t kCellsForGpu = int64_t(1) << 17;

// Null: not on the GPU. Kept in the cache, if there is one, else in `own`.
kernels::FieldGpu* gpu_for(const FieldSettings& settings, FieldPlace place, FieldCache* cache,
                           std::unique_ptr<kernels::FieldGpu>& own) {
  const int64_t cells = int64_t(settings.grid) * settings.grid * int64_t(1 + settings.rows.size() * settings.columns.size());
  if (place == FieldPlace::cpu || (place == FieldPlace::automatic && cells < kCellsForGpu)) return nullptr;
  auto& gpu = cache ? cache->data->gpu : own;
  if (gpu) return gpu.get();
  if (place == FieldPlace::automatic && !kernels::cuda_available()) return nullptr;
  try {
    gpu = std::make_unique<kernels::FieldGpu>();
  } catch (const std::exception& e) {
    if (place == FieldPlace::automatic) return nullptr;
    throw Error({.item = "value field", .found = e.what(), .advice = "compute it on the CPU"}, Error::Kind::usage);
  }
  return gpu.get();
}

}  // namespace

std::shared_ptr<const ValueField> value_field(const FieldSettings& settings, Progress* progress, FieldCache* cache,
                                              FieldPlace place) {
  require(settings);
  const bool torus = settings.space == FieldSpace::torus;
  const double from = torus ? 0 : -settings.extent, to = torus ? kTurn : settings.extent;
  const auto at = centres(from, to, settings.grid);
  std::unique_ptr<kernels::FieldGpu> own;
  kernels::FieldGpu* const gpu = gpu_for(settings, place, cache, own);
  if (!gpu) return evaluate(settings, field_axes(settings, at, at), progress, cache, nullptr);
  try {
    return evaluate(settings, field_axes(settings, at, at), progress, cache, gpu);
  } catch (const std::runtime_error& e) {  // the GPU has failed, or has too little memory left
    (cache ? cache->data->gpu : own).reset();
    if (place == FieldPlace::gpu)
      throw Error({.item = "value field", .found = e.what(), .advice = "compute it on the CPU"}, Error::Kind::usage);
    return evaluate(settings, field_axes(settings, at, at), progress, cache, nullptr);
  }
}

std::vector<double> value_field_at(const FieldSettings& settings, double x, double y) {
  require(settings);
  const auto field = evaluate(settings, field_axes(settings, {x}, {y}), nullptr, nullptr, nullptr);
  std::vector<double> values = field->reference->value;
  for (const auto& panel : field->panels) values.insert(values.end(), panel->value.begin(), panel->value.end());
  return values;
}

}  // namespace slotscope::analysis
