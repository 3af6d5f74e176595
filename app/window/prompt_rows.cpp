#include "app/window/prompt_rows.h"

#include <algorithm>

#include "core/formats/utf8.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

namespace {

constexpr int kBatch = 100;          // rows per request, so that the first ones are there at once
constexpr size_t kShownBytes = 160;  // of a prompt
constexpr qint64 kNotCounted = -1, kNoCount = -2;  // not yet; cannot be
constexpr int kMaxCounted = 60;                    // rows per request for tokens

// The first words in one line; long texts end in "…".
QString firstWords(const std::string& text) {
  size_t end = std::min(text.size(), kShownBytes);
  while (end < text.size() && end > 0 && formats::is_utf8_continuation(text[end])) --end;
  QString words = QString::fromUtf8(text.data(), qsizetype(end));
  words.replace(QLatin1Char('\n'), QChar(0x21B5));
  words.replace(QLatin1Char('\t'), QChar(0x21E5));
  words.remove(QLatin1Char('\r'));
  return end < text.size() ? words + QChar(0x2026) : words;
}

QString firstIds(const std::vector<int32_t>& ids) {
  QString text;
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 24); ++i)
    text += (i ? ", " : "") + QString::number(ids[i]);
  return ids.size() > 24 ? text + QStringLiteral(", …") : text;
}

}  // namespace

PromptRowsModel::PromptRowsModel(QObject* parent) : QAbstractTableModel(parent) {}

void PromptRowsModel::setFile(std::shared_ptr<const formats::PromptFile> file,
                              std::shared_ptr<const formats::Tokenizer> tokenizer) {
  beginResetModel();
  file_ = std::move(file);
  tokenizer_ = std::move(tokenizer);
  rows_.assign(file_ ? size_t(file_->rows()) : 0, {});
  listed_ = 0;
  ++generation_;
  endResetModel();
  listMore();
}

void PromptRowsModel::setTokenizer(std::shared_ptr<const formats::Tokenizer> tokenizer) {
  if (tokenizer == tokenizer_) return;
  tokenizer_ = std::move(tokenizer);
  ++generation_;
  const bool ids = file_ && file_->format() == formats::PromptFormat::ids;
  if (!ids)
    for (Row& row : rows_) row.tokens = kNotCounted;
  if (!rows_.empty()) Q_EMIT dataChanged(index(0, TokensColumn), index(int(rows_.size()) - 1, TokensColumn));
  if (!listed()) listMore();  // the running request belongs to the generation before
}

void PromptRowsModel::listMore() {
  Q_EMIT listing(listed_, int(rows_.size()));
  if (!file_ || listed()) return;
  const int first = listed_, last = std::min<int>(listed_ + kBatch, int(rows_.size()));
  worker_.post("rows", this,
               [this, first, last, file = file_, generation = generation_]() -> views::Worker::Done {
                 auto found = std::make_shared<std::vector<Row>>();
                 for (int i = first; i < last; ++i) {
                   Row row;
                   row.known = true;
                   try {
                     const formats::PromptRow source = file->row(i);
                     row.text = source.has_text ? firstWords(source.text) : firstIds(source.ids);
                     if (!source.has_text) row.tokens = qint64(source.ids.size());
                     row.answer = firstWords(source.answer);
                     for (const auto& warning : source.warnings)
                       row.tip += (row.tip.isEmpty() ? "" : "\n") + QString::fromStdString(warning);
                     row.odd = !source.warnings.empty();
                   } catch (const std::exception& e) {
                     row.broken = true;
                     row.text = row.tip = QString::fromUtf8(e.what());
                   }
                   found->push_back(std::move(row));
                 }
                 return [this, found, first, last, generation] {
                   if (generation != generation_) return;
                   std::move(found->begin(), found->end(), rows_.begin() + first);
                   listed_ = last;
                   Q_EMIT dataChanged(index(first, 0), index(last - 1, ColumnCount - 1));
                   listMore();
                 };
               });
}

void PromptRowsModel::countTokens(const std::vector<int>& rows) {
  std::vector<int> wanted;
  for (const int row : rows)
    if (usable(row) && rows_[size_t(row)].tokens == kNotCounted && int(wanted.size()) < kMaxCounted)
      wanted.push_back(row);
  if (wanted.empty() || !tokenizer_) return;
  worker_.post("tokens", this,
               [this, wanted, file = file_, tokenizer = tokenizer_,
                generation = generation_]() -> views::Worker::Done {
                 auto counts = std::make_shared<std::vector<qint64>>();
                 for (const int row : wanted) {
                   qint64 count = kNoCount;
                   try {
                     count = qint64(tokenizer->encode(file->row(row).text).ids.size());
                   } catch (const std::exception&) {
                     // Said when the row is run; here there is just no count.
                   }
                   counts->push_back(count);
                 }
                 return [this, counts, wanted, generation] {
                   if (generation != generation_) return;
                   for (size_t i = 0; i < wanted.size(); ++i) {
                     rows_[size_t(wanted[i])].tokens = (*counts)[i];
                     Q_EMIT dataChanged(index(wanted[i], TokensColumn), index(wanted[i], TokensColumn));
                   }
                 };
               });
}

bool PromptRowsModel::usable(int row) const {
  return row >= 0 && row < int(rows_.size()) && rows_[size_t(row)].known && !rows_[size_t(row)].broken;
}

qint64 PromptRowsModel::tokens(int row) const { return usable(row) ? rows_[size_t(row)].tokens : -1; }

int PromptRowsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : int(rows_.size());
}
int PromptRowsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : ColumnCount;
}

QVariant PromptRowsModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= int(rows_.size())) return {};
  const Row& row = rows_[size_t(index.row())];
  const views::Theme& theme = views::Theme::current();
  switch (role) {
    case Qt::DisplayRole:
      switch (index.column()) {
        case RowColumn:
          return QString::number(index.row());
        case TextColumn:
          return row.known ? row.text : QStringLiteral("…");
        case TokensColumn:
          return row.tokens >= 0 ? views::count(row.tokens) : row.broken ? QString() : QStringLiteral("–");
        case AnswerColumn:
          return row.answer;
        default:
          return {};
      }
    case Qt::ToolTipRole:
      return row.tip.isEmpty() ? QVariant() : QVariant(row.tip);
    case Qt::TextAlignmentRole:
      return int(
          Qt::AlignVCenter |
          (index.column() == RowColumn || index.column() == TokensColumn ? Qt::AlignRight : Qt::AlignLeft));
    case Qt::ForegroundRole:
      if (row.broken && index.column() == TextColumn) return theme.error;
      if (row.odd && index.column() == AnswerColumn) return theme.warn;
      return index.column() == RowColumn || !row.known ? theme.text3 : theme.text;
    case Qt::FontRole:
      return index.column() == TextColumn && !row.broken ? theme.fixed : theme.ui;
    default:
      return {};
  }
}

QVariant PromptRowsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  static const char* names[] = {"Row", "Prompt", "Tokens", "Expected answer"};
  if (orientation != Qt::Horizontal || section < 0 || section >= ColumnCount) return {};
  if (role == Qt::DisplayRole) return QString(names[section]);
  if (role == Qt::TextAlignmentRole)
    return int(Qt::AlignVCenter |
               (section == RowColumn || section == TokensColumn ? Qt::AlignRight : Qt::AlignLeft));
  return {};
}

Qt::ItemFlags PromptRowsModel::flags(const QModelIndex& index) const {
  return usable(index.row()) ? Qt::ItemIsEnabled | Qt::ItemIsSelectable : Qt::ItemIsEnabled;
}

QString rowsText(const std::vector<int64_t>& rows) {
  QString text;
  for (size_t i = 0; i < rows.size();) {
    size_t last = i;
    while (last + 1 < rows.size() && rows[last + 1] == rows[last] + 1) ++last;
    if (!text.isEmpty()) text += ',';
    text += last > i ? QString("%1:%2").arg(rows[i]).arg(rows[last] + 1) : QString::number(rows[i]);
    i = last + 1;
  }
  return text;
}

}  // namespace slotscope::app
