#include "app/window/tensor_reader.h"

#include <algorithm>
#include <cmath>

#include "app/window/problem.h"
#include "app/window/tensor_model.h"
#include "core/formats/tensor_statistics.h"
#include "core/formats/values.h"
#include "views/format.h"

namespace slotscope::app {

namespace {

constexpr int most_bins = 80, most_whole_bins = 256;
constexpr uint64_t all_up_to = 12, first_shown = 6, last_shown = 5;

bool isWhole(formats::DType dtype) {
  using D = formats::DType;
  switch (dtype) {
    case D::i8:
    case D::u8:
    case D::i16:
    case D::u16:
    case D::i32:
    case D::u32:
    case D::i64:
    case D::u64:
    case D::boolean:
      return true;
    default:
      return false;
  }
}

// Positions of which all are shown, or the first and the last with a gap (empty) between them.
std::vector<std::optional<uint64_t>> shownOf(uint64_t n) {
  std::vector<std::optional<uint64_t>> at;
  for (uint64_t i = 0; i < std::min(n, n <= all_up_to ? n : first_shown); ++i) at.push_back(i);
  if (n <= all_up_to) return at;
  at.push_back(std::nullopt);
  for (uint64_t i = n - last_shown; i < n; ++i) at.push_back(i);
  return at;
}

// "3, 17": the place of row `row` among the dimensions before the last.
QString rowName(const std::vector<int64_t>& shape, uint64_t row) {
  QStringList parts;
  for (size_t d = shape.size(); d-- > 0;) {
    const auto size = uint64_t(std::max<int64_t>(1, shape[d]));
    parts.prepend(QString::number(row % size));
    row /= size;
  }
  return parts.isEmpty() ? QStringLiteral("0") : parts.join(QStringLiteral(", "));
}

views::TensorHistogram histogramOf(const OpenCheckpoint& open, const formats::TensorInfo& tensor,
                                   const formats::TensorStatistics& s, bool whole) {
  views::TensorHistogram h;
  h.checkpoint = open.name;
  h.tensor = QString::fromStdString(tensor.name);
  h.dtype = QString::fromStdString(tensor.dtype_text);
  h.shape = shapeText(tensor.shape);
  h.elements = s.count;
  h.finite = s.finite;
  h.nan = s.nan;
  h.positive_infinity = s.positive_infinity;
  h.negative_infinity = s.negative_infinity;
  h.zeros = s.zeros;
  h.minimum = s.minimum;
  h.maximum = s.maximum;
  h.minimum_text = QString::fromStdString(s.minimum_text);
  h.maximum_text = QString::fromStdString(s.maximum_text);
  h.mean = s.mean;
  h.deviation = s.standard_deviation;
  h.l2 = s.l2_norm;
  for (const auto& q : s.quantiles) h.quantiles.push_back({q.share, q.value});
  h.edges = QVector<double>(s.histogram.edges.begin(), s.histogram.edges.end());
  for (const uint64_t n : s.histogram.counts) h.counts.push_back(n);
  h.symmetric_log = s.histogram.scale == formats::BinScale::symmetric_log;
  h.unit = s.histogram.unit;
  h.whole = whole;
  // Exactly at the halves: the ends are known, and each bin is one wide.
  for (int i = 0; whole && i < h.edges.size(); ++i) h.edges[i] = s.minimum - 0.5 + i;
  return h;
}

std::optional<views::TensorHistogram> count(const OpenCheckpoint& open, const formats::TensorInfo& tensor,
                                            bool symmetric_log, Progress& progress) {
  formats::StatisticsOptions options;
  // Rice's rule, in bounds: few elements would be lost in many bins.
  options.bins =
      std::clamp(int(std::ceil(2 * std::cbrt(double(formats::element_count(tensor))))), 8, most_bins);
  if (symmetric_log) options.scale = formats::BinScale::symmetric_log;
  auto found = formats::tensor_statistics(*open.checkpoint, tensor, options, &progress);
  if (!found) return std::nullopt;
  // Few different whole numbers: each gets its own bar.
  if (!isWhole(tensor.dtype) || found->finite == 0 || !(found->maximum - found->minimum < most_whole_bins) ||
      !(std::abs(found->maximum) < 1e15))
    return histogramOf(open, tensor, *found, false);
  options.scale = formats::BinScale::linear;
  options.bins = int(std::lround(found->maximum - found->minimum)) + 1;
  options.range = {found->minimum - 0.5, found->maximum + 0.5};
  found = formats::tensor_statistics(*open.checkpoint, tensor, options, &progress);
  if (!found) return std::nullopt;
  return histogramOf(open, tensor, *found, true);
}

}  // namespace

TensorReader::TensorReader(JobModel* jobs, QObject* parent) : QObject(parent), jobs_(jobs) {
  connect(&worker_, &views::Worker::idle, this, &TensorReader::idle, Qt::QueuedConnection);
  connect(&worker_, &views::Worker::failed, this, [this](const QString&, const QString& text) {
    why_ = text;
    Q_EMIT changed();
  });
  connect(jobs_, &JobModel::polled, this, [this] {
    const Job* job = job_ ? jobs_->find(job_) : nullptr;
    // What is there at once must not flash a bar.
    if (job && job->since.elapsed() > 200)
      Q_EMIT progressed(JobModel::fraction(*job), JobModel::describe(*job));
  });
}

TensorReader::~TensorReader() {
  if (progress_) progress_->request_cancel();
}

void TensorReader::setCheckpoint(std::shared_ptr<const OpenCheckpoint> open) {
  stop();
  open_ = std::move(open);
  tensor_ = -1;
  preview_.reset();
  histogram_.reset();
  why_.clear();
  Q_EMIT changed();
}

void TensorReader::read(int tensor) {
  if (!open_ || tensor < 0 || size_t(tensor) >= open_->checkpoint->tensors().size()) return;
  if (tensor == tensor_) return;
  stop();
  tensor_ = tensor;
  preview_.reset();
  preview_why_.clear();
  start();
}

void TensorReader::readAgain() {
  if (tensor_ < 0) return;
  stop();
  start();
}

void TensorReader::setSymmetricLog(bool on) {
  if (symmetric_log_ == on) return;
  symmetric_log_ = on;
  readAgain();
}

void TensorReader::cancel() {
  if (job_) jobs_->cancel(job_);
}

// A job whose request is still waiting would never be ended by the worker: it ends here.
void TensorReader::stop() {
  if (progress_) progress_->request_cancel();
  if (job_) jobs_->end(job_, JobState::cancelled, "another tensor was chosen");
  job_ = 0;
  progress_.reset();
}

void TensorReader::start() {
  histogram_.reset();
  why_.clear();
  button_.clear();
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("waiting", 0);
  progress_ = progress;
  const auto open = open_;
  const int tensor = tensor_;
  const QString name = QString::fromStdString(open->checkpoint->tensors()[size_t(tensor)].name);
  const int job = job_ = jobs_->start(
      "Statistics of " + (name.size() > 120 ? name.left(119) + QChar(0x2026) : name), progress, true);
  if (!preview_)
    worker_.post("values", this, [this, open, tensor, progress]() -> views::Worker::Done {
      if (progress->cancel_requested()) return {};
      std::optional<views::TensorPreview> values;
      QString why;
      try {
        values = preview(*open->checkpoint, open->checkpoint->tensors()[size_t(tensor)]);
      } catch (const std::exception& e) {
        why = QString::fromUtf8(e.what());
      }
      return [this, open, tensor, values, why] {
        if (open != open_ || tensor != tensor_) return;
        preview_ = values;
        preview_why_ = why;
        Q_EMIT changed();
      };
    });
  worker_.post(
      "statistics", this, [this, open, tensor, job, progress, log = symmetric_log_]() -> views::Worker::Done {
        std::optional<views::TensorHistogram> found;
        QString why;
        if (!progress->cancel_requested()) try {
            found = count(*open, open->checkpoint->tensors()[size_t(tensor)], log, *progress);
          } catch (const std::exception& e) {
            why = problemFrom(e, {}).summary;
          }
        return [this, job, found, why] {
          // Ended already when another tensor was chosen meanwhile.
          if (!jobs_->end(job,
                          found           ? JobState::finished
                          : why.isEmpty() ? JobState::cancelled
                                          : JobState::failed,
                          why) ||
              job != job_)
            return;
          job_ = 0;
          progress_.reset();
          histogram_ = found;
          why_ = found           ? QString()
                 : why.isEmpty() ? QStringLiteral("Cancelled: the tensor was not read to its end.")
                                 : why;
          const bool can_read = formats::can_compute(open_->checkpoint->tensors()[size_t(tensor_)].dtype);
          button_ = found || !can_read ? QString()
                    : why.isEmpty()    ? QStringLiteral("Read it")
                                       : QStringLiteral("Try again");
          Q_EMIT changed();
        };
      });
  Q_EMIT changed();
}

void TensorReader::tell(views::TensorView* view) const {
  if (!open_ || tensor_ < 0) return view->clear();
  const auto& facts_now = facts(*open_, tensor_);
  if (view->property("tensor").toInt() != tensor_ ||
      view->property("checkpoint").value<quintptr>() != quintptr(open_.get()) || (!histogram_ && job_)) {
    view->setProperty("tensor", tensor_);
    view->setProperty("checkpoint", QVariant::fromValue(quintptr(open_.get())));
    view->setFacts(facts_now);
  }
  if (preview_) view->setPreview(*preview_);
  if (histogram_)
    view->setHistogram(*histogram_);
  else if (!why_.isEmpty())
    view->setStopped(why_, button_);
}

views::TensorFacts TensorReader::facts(const OpenCheckpoint& open, int tensor) {
  const auto& checkpoint = *open.checkpoint;
  const auto& t = checkpoint.tensors()[size_t(tensor)];
  views::TensorFacts facts;
  facts.checkpoint = open.name;
  facts.name = QString::fromStdString(t.name);
  const QString gap = QStringLiteral(" · ");
  const uint64_t elements = formats::element_count(t);
  facts.lines << shapeText(t.shape) + gap + QString::fromStdString(t.dtype_text) + gap +
                     QString("%1 element%2").arg(views::count(qint64(elements)), elements == 1 ? "" : "s") +
                     gap + views::bytes(qint64(t.bytes)) +
                     (t.bytes >= 1000 ? QString(" (%1 bytes)").arg(views::count(qint64(t.bytes)))
                                      : QString());
  const QString file = size_t(t.file) < checkpoint.files().size()
                           ? QString::fromStdString(checkpoint.files()[size_t(t.file)].filename().string())
                           : QString();
  facts.lines << QString("%1, from byte %2").arg(file, views::count(qint64(t.offset)));
  if (!t.strides.empty()) {
    QStringList strides;
    for (const int64_t s : t.strides) strides << QString::number(s);
    facts.lines << QString("Not contiguous: strides %1 (elements)").arg(strides.join(QStringLiteral(", ")));
  }
  if (!t.shares_with.empty())
    if (const auto* first = checkpoint.find(t.shares_with)) {
      facts.shares_with = QString::fromStdString(t.shares_with);
      facts.sharing = formats::same_elements(*first, t) ? "Shares memory, same values as"
                                                        : "Shares memory, another view, with";
    }
  return facts;
}

views::TensorPreview TensorReader::preview(const formats::Checkpoint& checkpoint,
                                           const formats::TensorInfo& tensor) {
  views::TensorPreview preview;
  const uint64_t all = formats::element_count(tensor);
  if (all == 0) return preview;
  // A vector is a column; what has more dimensions is rows of its last one.
  const bool flat = tensor.shape.size() < 2;
  const uint64_t columns = flat ? 1 : uint64_t(tensor.shape.back()), rows = all / columns;
  const std::vector<int64_t> leading(tensor.shape.begin(), tensor.shape.end() - (flat ? 0 : 1));
  const auto shown_rows = shownOf(rows), shown_columns = shownOf(columns);
  const QString dots = QStringLiteral("…");
  for (const auto& c : shown_columns) preview.columns << (flat ? "value" : c ? QString::number(*c) : dots);
  for (const auto& r : shown_rows) {
    preview.rows << (r ? rowName(leading, *r) : dots);
    QStringList cells;
    if (!r) {
      for (size_t c = 0; c < shown_columns.size(); ++c) cells << dots;
    } else {
      const auto add = [&](uint64_t first, uint64_t n) {
        for (const auto& text : formats::read_values_text(checkpoint, tensor, *r * columns + first, n))
          cells << QString::fromStdString(text);
      };
      if (columns <= all_up_to) {
        add(0, columns);
      } else {
        add(0, first_shown);
        cells << dots;
        add(columns - last_shown, last_shown);
      }
    }
    preview.cells.push_back(std::move(cells));
  }
  return preview;
}

}  // namespace slotscope::app
