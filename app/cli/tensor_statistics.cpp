// slotscope-cli info FOLDER --tensor NAME: statistics and histogram of one tensor.
#include "core/formats/tensor_statistics.h"

#include <algorithm>
#include <cmath>

#include "app/cli/commands.h"
#include "core/fields.h"

namespace slotscope::cli {
namespace {

using formats::BinScale;
using formats::Checkpoint;
using formats::TensorInfo;
using formats::TensorStatistics;

constexpr size_t kBar = 40;      // characters of the largest count
constexpr size_t kSuggested = 5; // names in the message about one that is not there

const TensorInfo& named_tensor(const Checkpoint& checkpoint, const std::string& name) {
  if (const TensorInfo* tensor = checkpoint.find(name)) return *tensor;
  std::string like;
  size_t found = 0;
  for (const TensorInfo& tensor : checkpoint.tensors())
    if (glob_match("*" + name + "*", tensor.name) && found++ < kSuggested)
      like += (like.empty() ? "" : ", ") + tensor.name;
  throw Error({checkpoint.folder().string(), "--tensor", "no tensor '" + name + "'", "a name that --tensors lists",
               found == 0 ? "" : "Like it: " + like + (found > kSuggested ? " and " + std::to_string(found - kSuggested) + " more" : "")},
              Error::Kind::usage);
}

const char* scale_name(BinScale scale) { return scale == BinScale::linear ? "linear" : "symmetric_log"; }

Json statistics_json(const TensorStatistics& s) {
  Json quantiles = Json::array();
  for (const auto& q : s.quantiles) quantiles.push_back({{"share", q.share}, {"value", q.value}});
  const formats::Histogram& h = s.histogram;
  return {{"count", s.count}, {"finite", s.finite}, {"nan", s.nan}, {"positive_infinity", s.positive_infinity},
          {"negative_infinity", s.negative_infinity}, {"zeros", s.zeros}, {"minimum", s.minimum}, {"maximum", s.maximum},
          {"minimum_text", s.minimum_text}, {"maximum_text", s.maximum_text}, {"absolute_maximum", s.absolute_maximum},
          {"mean", s.mean}, {"standard_deviation", s.standard_deviation}, {"l2_norm", s.l2_norm}, {"quantiles", quantiles},
          {"histogram", {{"scale", scale_name(h.scale)}, {"unit", h.scale == BinScale::linear ? Json(nullptr) : Json(h.unit)},
                         {"edges", h.edges}, {"counts", h.counts}}}};
}

std::string row(const std::string& name, const std::string& value) {
  std::string line = name;
  line.resize(12, ' ');
  return line + printable(value) + "\n";
}

std::string counts_text(const TensorStatistics& s) {
  std::string text = count_text(int64_t(s.count)) + ", " + count_text(int64_t(s.zeros)) + " of them zero";
  const auto add = [&](uint64_t n, const char* what) {
    if (n > 0) text += ", " + count_text(int64_t(n)) + " " + what;
  };
  add(s.nan, "NaN");
  add(s.positive_infinity, "+infinity");
  add(s.negative_infinity, "-infinity");
  return text;
}

std::string statistics_text(const TensorStatistics& s) {
  std::string text = row("elements", counts_text(s));
  if (s.finite == 0) return text + row("", "no finite values");
  text += row("range", s.minimum_text + " to " + s.maximum_text) + row("mean", number_text(s.mean, 6)) +
          row("deviation", number_text(s.standard_deviation, 6)) + row("L2 norm", number_text(s.l2_norm, 6));
  std::string quantiles;
  for (const auto& q : s.quantiles)
    quantiles += (quantiles.empty() ? "" : ", ") + number_text(q.share * 100) + " %: " + number_text(q.value, 6);
  return text + row("quantiles", quantiles);
}

std::string histogram_text(const formats::Histogram& h) {
  if (h.counts.empty()) return "";
  const uint64_t most = *std::max_element(h.counts.begin(), h.counts.end());
  Table table({">from", ">to", ">count", ""});
  for (size_t i = 0; i < h.counts.size(); ++i) {
    const double share = most ? double(h.counts[i]) / double(most) : 0;
    std::string bar(size_t(std::lround(share * kBar)), '#');
    if (bar.empty() && h.counts[i] > 0) bar = ".";  // not nothing
    table.row({number_text(h.edges[i]), number_text(h.edges[i + 1]), count_text(int64_t(h.counts[i])), bar});
  }
  return "\nhistogram" + std::string(h.scale == BinScale::linear ? "" : " (symmetric log, linear below " + number_text(h.unit) + ")") +
         "\n" + table.text("  ");
}

}  // namespace

int run_tensor_statistics(const InfoSettings& s, const Console& console) {
  const auto checkpoint = Checkpoint::open(s.folder, {.ignore_index = s.ignore_index, .weights = s.weights});
  const TensorInfo& tensor = named_tensor(*checkpoint, s.tensor);
  formats::StatisticsOptions options;
  options.bins = s.bins;
  options.scale = s.log_bins ? BinScale::symmetric_log : BinScale::linear;
  Progress& progress = cancel_on_signal();
  std::optional<TensorStatistics> statistics;
  {
    const ProgressLine line(progress, console);
    statistics = formats::tensor_statistics(*checkpoint, tensor, options, &progress);
  }
  if (!statistics) {
    console.info("cancelled");
    if (console.json) console.out_json({{"status", "cancelled"}});
    return kExitCancelled;
  }
  const std::string file = checkpoint->files()[size_t(tensor.file)].filename().string();
  if (console.json) {
    Json description = {{"dtype", tensor.dtype_text}, {"shape", tensor.shape}, {"bytes", tensor.bytes}, {"file", file}};
    put_text(description, "name", tensor.name);
    console.out_json({{"folder", checkpoint->folder().string()}, {"tensor", description},
                      {"statistics", statistics_json(*statistics)}, {"notes", checkpoint->notes()},
                      {"warnings", checkpoint->warnings()}});
  } else {
    console.out(row("tensor", tensor.name) +
                row("", tensor.dtype_text + " " + shape_text(tensor.shape) + ", " + bytes_text(int64_t(tensor.bytes)) + ", " + file) +
                statistics_text(*statistics) + histogram_text(statistics->histogram));
  }
  for (const auto& warning : checkpoint->warnings()) console.warning(warning);
  return kExitOk;
}

}  // namespace slotscope::cli
