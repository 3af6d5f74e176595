// What the overlap view shows, made in a worker: pixels of the chosen token-to-token matrix, small pictures of the others, and
// how far each row is from another matrix's (design: section 12 "Address overlap"). No widgets.
#pragma once

#include <QString>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/analysis/overlap.h"
#include "views/heatmap_geometry.h"
#include "views/view.h"

namespace slotscope::views {

struct OverlapPicture;

enum class MatrixKind { overlap, induced, against, difference };
constexpr int kMatrixKinds = 4;

struct OverlapJob {
  std::shared_ptr<const RunData> run;
  std::shared_ptr<const analysis::HeadData> head;
  std::shared_ptr<const RunData> other;  // a second trace; null: none
  int other_layer = 0, other_head = 0;   // query head
  analysis::AddressDials dials;
  analysis::OverlapKind kind = analysis::OverlapKind::min;  // of routes; addresses of their own are always compared by dot
  MatrixKind show = MatrixKind::overlap;
  bool by_row_sum = false;  // each row divided by its sum
  CellRange rows{0, 1}, columns{0, 1};
  int pixel_rows = 600, pixel_columns = 600;
  int side_pixels = 160;  // of the small pictures
  bool sides = true;      // false: the chosen matrix alone, for a long prompt's first picture
  std::shared_ptr<const OverlapPicture> main;  // made by such a job: only what it left out is made
  std::shared_ptr<Progress> progress;
};

struct OverlapPicture {
  std::shared_ptr<const analysis::Addresses> captured, addresses;  // as captured; under the dials
  std::array<std::shared_ptr<const analysis::TokenMatrix>, kMatrixKinds> matrix;  // null: not to be had
  std::array<QString, kMatrixKinds> why;                                           // and why
  QString failed;      // why there is nothing at all
  QString dial_failed;  // why the dials were not followed: the picture is as captured
  analysis::MatrixGrid grid;
  struct Side {
    MatrixKind kind = MatrixKind::overlap;
    analysis::MatrixGrid grid;
  };
  std::vector<Side> side;
  std::vector<double> js;  // one for every row of pixels: of the first captured token in it; NaN: none
  std::vector<int64_t> js_token;
  QString js_name;         // "JS(A, attention)"; empty: nothing to compare with
  int64_t missing_mass = 0;
  bool cancelled = false;
};

// Addresses and matrices of the last head, kept for the next picture of it. Safe from any thread.
class OverlapSource {
 public:
  OverlapPicture make(const OverlapJob& job);

 private:
  void load(const OverlapJob& job);
  void matrices(const OverlapJob& job, OverlapPicture& picture);
  std::mutex mutex_;
  std::shared_ptr<const analysis::HeadData> head_;
  std::shared_ptr<const analysis::Addresses> captured_, dialled_;
  analysis::AddressDials dials_;
  std::shared_ptr<const RunData> other_;
  int other_layer_ = -1, other_head_ = -1;
  std::shared_ptr<const analysis::TokenMatrix> against_;
  QString why_against_;
};

QString matrixName(MatrixKind kind, const OverlapPicture* picture, bool by_row_sum);
QString matrixFormula(MatrixKind kind, const OverlapPicture& picture);
// Slots of an address as text for tooltips: rank order, at most `most`.
QVector<std::pair<QString, QString>> addressRows(const analysis::Addresses&, int64_t row, bool write, int most);

}  // namespace slotscope::views
