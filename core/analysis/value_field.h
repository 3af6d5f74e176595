// Value fields: what a memory of a few keys answers to every query of a plane of queries (spec: ramnet 3; RAM-Net Figures 1 and
// 4). On the torus S1 x S1 keys and queries are two planar blocks (U = 2) given by their angles; in the plane they are one block
// (U = 1) given by its coordinates. Panels compare full attention with quantised keys and values, linear attention and RAM-Net
// memories. All in float64; kernels/value_field.h has the loops and says which plain arrays they take.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/progress.h"

namespace slotscope::analysis {

// Bounds of what is accepted: beyond them a message, never an allocation.
inline constexpr int kMostFieldKeys = 4096, kLargestFieldGrid = 1024, kMostFieldPanels = 256, kMostFieldCodes = 256,
                     kMostFieldFeatures = 4096, kMostFieldValueBits = 16, kMostFieldQueries = 65536;
inline constexpr size_t kMostFieldNumbers = size_t(128) << 20;  // values and read masses of all panels: 1 GiB

enum class FieldSpace { torus, plane };

struct FieldKey {
  double x = 0, y = 0;  // torus: angles phi_0, phi_1 of the two blocks, radians; plane: k_0, k_1
  std::array<double, 2> radius{1, 1};  // torus: lengths of the two blocks (1 unless from a real model)
  std::array<double, 3> value{};       // the first `channels` count
  bool operator==(const FieldKey&) const = default;
};

enum class FieldKind {
  full_attention,   // softmax(q.k / tau) over the keys
  quantised,        // the same over quantised keys and values
  linear_elu,       // linear attention, phi(x) = elu(x) + 1
  linear_features,  // linear attention, phi_i(x) = exp(omega_i.x / sqrt(tau) - |x|^2 / (2 tau)), omega ~ N(0, 1)
  ramnet,
};
enum class FieldQuantiser {
  none,
  circular,  // each planar block becomes its nearest code of (cos 2 pi j/d_p, sin 2 pi j/d_p), ties to the lower code
  kmeans,    // the whole key becomes the nearest of `codes` centroids of the keys (k-means++, then Lloyd)
};
enum class FieldOrder { given, reversed, shuffled };  // in which the keys are written

// One column of panels.
struct FieldPanel {
  FieldKind kind = FieldKind::ramnet;
  std::string name;  // title; empty: field_title
  int codes = 4;     // d_p of ramnet and of the circular code, or the number of centroids
  // ramnet: the K slots that are kept of an address, read and written; M = codes^U or more keeps all.
  int64_t top_k = 16;
  double beta_read = 1, beta_write = 1;  // in units of the row's beta; infinite: the nearest code alone
  bool mass_aware = false;
  bool divide = false;     // standard readout over the read mass on written slots
  bool cumulative = true;  // rho = 1; else GSU with gamma
  double gamma = 0;        // -infinity: cumulative; +infinity: every write replaces what its slots hold
  FieldOrder order = FieldOrder::given;
  double eps = 0;  // of m + eps in the update
  // quantised: keys, then values to 2^bits levels between the least and the greatest of each channel; 0 bits: as they are.
  FieldQuantiser quantiser = FieldQuantiser::circular;
  int value_bits = 0;
  int features = 64;   // linear_features
  uint64_t seed = 0;   // of centroids, features and the shuffled order
  bool operator==(const FieldPanel&) const = default;
};

struct FieldSettings {
  FieldSpace space = FieldSpace::torus;
  std::vector<FieldKey> keys;
  int channels = 1;  // 1: scalar values, 3: RGB
  double tau = 2;    // of full attention; beta* = sqrt(2 / tau), beta_star_of_tau of product_code.h
  int grid = 128;    // G x G queries: cell centres of [0, 2 pi)^2, or of [-extent, extent]^2
  double extent = 1.5;
  std::array<double, 2> query_radius{1, 1};  // torus: lengths of a query's two blocks
  std::vector<double> rows{1};               // beta / beta*
  std::vector<FieldPanel> columns;
  // Of keys from a real model (value_field_model.h), for the eye alone: where its queries lie, and what keys and queries are.
  std::vector<std::array<double, 2>> queries;
  std::string origin;
  bool operator==(const FieldSettings&) const = default;
};

int field_factors(FieldSpace);               // U: 2 or 1
int64_t field_slots(FieldSpace, int codes);  // M = codes^U
// "d 4 · K 16", "d 16 · K 256\nmass-aware", "full attention": the second line holds what differs from the plainest of its kind.
std::string field_title(const FieldPanel&, FieldSpace);
// "" or what is wrong, in words for a person: "column 3: 1 codes per factor, at least 2: ...".
std::string field_problem(const FieldSettings&);

// One panel: a row and a column.
struct FieldResult {
  std::vector<double> value;      // [G, G, channels]: y (factor 1) first, then x (factor 0)
  std::vector<double> read_mass;  // [G, G]: sum of the kept read weights on written slots; empty unless ramnet
  double rmse = 0;                // to full attention, over queries and channels
  double mean_read_mass = std::numeric_limits<double>::quiet_NaN();
  int64_t empty_cells = 0;        // queries whose divisor (mass-aware, divide) is 0 or has lost its digits: their value is 0
  // What is stored. ramnet: slots, code_0 first. Otherwise: the keys and values that scores are taken with.
  std::vector<double> mass, state;  // [M], [M, channels]
  int64_t written = 0;              // slots with mass
  double mean_write_mass = std::numeric_limits<double>::quiet_NaN();  // of the kept write weights, over keys
  std::vector<FieldKey> stored;     // not of ramnet and linear attention
};
struct ValueField {
  FieldSettings settings;
  double beta_star = 0;
  bool on_gpu = false;
  std::vector<double> x, y;  // query coordinates (or angles) of the grid
  std::shared_ptr<const FieldResult> reference;  // full attention
  // [rows, columns]; panels that do not depend on beta are shared by the rows.
  std::vector<std::shared_ptr<const FieldResult>> panels;
  const FieldResult& at(size_t row, size_t column) const { return *panels[row * settings.columns.size() + column]; }
};

// The addresses that queries read, kept from call to call: they do not depend on keys, so a key that moves costs little.
// Not to be used from two threads at once.
class FieldCache {
 public:
  FieldCache();
  ~FieldCache();
  struct Data;
  std::unique_ptr<Data> data;
};

// On the GPU numbers differ from the CPU's in their last bits (kernels/value_field.h). automatic: there, when one answers and
// the figure is large enough, otherwise and when the GPU fails on the CPU.
enum class FieldPlace { cpu, gpu, automatic };

// Throws Error (usage) with field_problem's words, or when `place` is gpu and the GPU fails. Null when `progress` asks to stop
// (tested between rows of cells; on the GPU between panels).
std::shared_ptr<const ValueField> value_field(const FieldSettings&, Progress* progress = nullptr, FieldCache* cache = nullptr,
                                              FieldPlace place = FieldPlace::cpu);

// The same at single queries instead of a grid, exact whatever the grid: value [panels, channels] of query (x, y), the
// reference first, then the panels [rows, columns].
std::vector<double> value_field_at(const FieldSettings&, double x, double y);

}  // namespace slotscope::analysis
