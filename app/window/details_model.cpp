#include "app/window/details_model.h"

#include <nlohmann/json.hpp>

#include "views/format.h"
#include "views/list_widgets.h"
#include "views/theme.h"

namespace slotscope::app {

namespace {

// A list that nobody reads to the end is no help: the rest is counted, `slotscope-cli info --json` has all.
constexpr size_t most_rows = 500;

QString text(const std::string& bytes) { return QString::fromStdString(bytes); }

QString number(uint64_t n, const char* one, const char* many) {
  return QString("%1 %2").arg(views::count(qint64(n)), QString::fromLatin1(n == 1 ? one : many));
}

void addModel(std::vector<DetailsSection>& sections, const engine::ModelInfo& info) {
  DetailsSection model{"Model", {}};
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) model.rows.push_back({name, text(value), {}});
  };
  line("Family", info.family);
  if (info.model_type != info.family) line("model_type", info.model_type);
  if (info.parameters > 0) model.rows.push_back({"Parameters", views::count(info.parameters), {}});
  line("Router", info.card.router);
  line("Content", info.card.content);
  line("Decay", info.card.decay);
  line("Readout", info.card.readout);
  sections.push_back(std::move(model));
}

void addFiles(std::vector<DetailsSection>& sections, const OpenCheckpoint& open) {
  const auto& files = open.summary.files;
  DetailsSection section{QString("Files (%1)").arg(views::count(qint64(files.size()))), {}};
  for (const auto& file : files) {
    QString value =
        number(file.tensors, "tensor", "tensors") + ", " + views::bytes(qint64(file.tensor_bytes));
    if (!file.bytes)
      value += "; the file is gone";
    else if (*file.bytes > file.tensor_bytes + file.tensor_bytes / 10 + 1'000'000)
      value += " of " + views::bytes(qint64(*file.bytes));
    section.rows.push_back({text(file.path.filename().string()), value, text(file.path.string())});
  }
  sections.push_back(std::move(section));
}

void addDtypes(std::vector<DetailsSection>& sections, const OpenCheckpoint& open) {
  DetailsSection section{"Data types", {}};
  for (const auto& dtype : open.summary.dtypes) {
    QString value = number(dtype.tensors, "tensor", "tensors") + ", ";
    if (dtype.elements > 0 || dtype.bytes == 0) value += number(dtype.elements, "element", "elements") + ", ";
    section.rows.push_back({text(dtype.dtype), value + views::bytes(qint64(dtype.bytes)), {}});
  }
  sections.push_back(std::move(section));
}

void addShared(std::vector<DetailsSection>& sections, const OpenCheckpoint& open) {
  const auto& shared = open.summary.shared;
  const auto& tensors = open.checkpoint->tensors();
  DetailsSection section{QString("Shared memory (%1)").arg(views::count(qint64(shared.size()))), {}};
  for (const auto& s : shared) {
    if (section.rows.size() == most_rows) break;
    section.rows.push_back(
        {text(tensors[s.tensor].name),
         (s.tied ? "same values as " : "another view of the memory of ") + text(tensors[s.with].name),
         {}});
  }
  if (shared.size() > most_rows)
    section.rows.push_back({"…", number(shared.size() - most_rows, "more tensor", "more tensors"), {}});
  sections.push_back(std::move(section));
}

void addIgnored(std::vector<DetailsSection>& sections, const formats::Checkpoint& checkpoint) {
  const auto& ignored = checkpoint.ignored();
  DetailsSection section{QString("Left out (%1)").arg(views::count(qint64(ignored.size()))), {}};
  for (const auto& item : ignored) {
    if (section.rows.size() == most_rows) break;
    section.rows.push_back(
        {text(item.item),
         text(item.why) + (item.bytes > 0 ? ", " + views::bytes(qint64(item.bytes)) : QString()),
         {}});
  }
  if (ignored.size() > most_rows)
    section.rows.push_back({"…", number(ignored.size() - most_rows, "more", "more"), {}});
  sections.push_back(std::move(section));
}

}  // namespace

std::vector<DetailsSection> describeCheckpoint(const OpenCheckpoint& open) {
  std::vector<DetailsSection> sections;
  if (!open.checkpoint) return sections;
  if (open.info) addModel(sections, *open.info);
  addFiles(sections, open);
  addDtypes(sections, open);
  addShared(sections, open);
  addIgnored(sections, *open.checkpoint);
  DetailsSection metadata{"File metadata", {}};
  for (const auto& [key, value] : open.checkpoint->metadata())
    if (metadata.rows.size() < most_rows) metadata.rows.push_back({text(key), text(value), {}});
  sections.push_back(std::move(metadata));
  DetailsSection notes{"Notes", {}};
  QStringList said;
  const auto add = [&](const std::vector<std::string>& list) {
    for (const auto& note : list)
      if (!said.contains(text(note))) said << text(note);
  };
  add(open.checkpoint->notes());
  if (open.info) add(open.info->notes);
  for (const QString& note : said) notes.rows.push_back({note, {}, {}});
  if (!open.tokenizer && !open.tokenizer_why.isEmpty()) notes.rows.push_back({open.tokenizer_why, {}, {}});
  sections.push_back(std::move(notes));
  std::erase_if(sections, [](const DetailsSection& s) { return s.rows.empty(); });
  return sections;
}

std::vector<engine::ModelInfo::ConfigRow> configRows(const OpenCheckpoint& open) {
  if (open.info) return open.info->config;
  std::vector<engine::ModelInfo::ConfigRow> rows;
  const auto* config = open.checkpoint ? open.checkpoint->config() : nullptr;
  if (!config || !config->is_object()) return rows;
  for (const auto& [key, value] : config->items()) {
    std::string shown = value.is_string()
                            ? value.get<std::string>()
                            : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (shown.size() > 2000) shown = shown.substr(0, 2000) + "…";
    rows.push_back({key, std::move(shown), "config.json"});
  }
  return rows;
}

QString checkpointLine(const OpenCheckpoint& open) {
  if (!open.checkpoint) return {};
  const auto& c = *open.checkpoint;
  const QString gap = QStringLiteral(" · ");
  const std::string_view format = formats::format_name(c.format());
  QString line = QString::fromUtf8(format.data(), qsizetype(format.size())) + gap;
  if (c.files().size() != 1) line += number(c.files().size(), "file", "files") + gap;
  return line + number(c.tensors().size(), "tensor", "tensors") + gap + views::bytes(qint64(c.total_bytes()));
}

QStringList checkpointMessages(const OpenCheckpoint& open) {
  QStringList messages;
  // Where the folder is stands above them already.
  const QString folder = open.checkpoint ? text(open.checkpoint->folder().string()) + '/' : QString();
  const auto add = [&](QString message) {
    if (folder.size() > 1) message.replace(folder, QString());
    if (!message.isEmpty() && !messages.contains(message)) messages << message;
  };
  if (!open.why.isEmpty()) add("Cannot be run. " + open.why);
  if (open.checkpoint)
    for (const auto& w : open.checkpoint->warnings()) add(text(w));
  if (open.info)
    for (const auto& w : open.info->warnings) add(text(w));
  return messages;
}

void DetailsModel::setSections(std::vector<DetailsSection> sections) {
  beginResetModel();
  sections_ = std::move(sections);
  endResetModel();
}

// A section's index has the id 0, a row's its section's number plus one.
QModelIndex DetailsModel::index(int row, int column, const QModelIndex& parent) const {
  if (row < 0 || column < 0 || column > 1 || row >= rowCount(parent)) return {};
  return createIndex(row, column, parent.isValid() ? quintptr(parent.row()) + 1 : quintptr(0));
}

QModelIndex DetailsModel::parent(const QModelIndex& index) const {
  if (!index.isValid() || index.internalId() == 0) return {};
  return createIndex(int(index.internalId()) - 1, 0, quintptr(0));
}

int DetailsModel::rowCount(const QModelIndex& parent) const {
  if (!parent.isValid()) return int(sections_.size());
  if (parent.internalId() != 0 || parent.column() != 0) return 0;
  return int(sections_[size_t(parent.row())].rows.size());
}

QString DetailsModel::text(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  if (index.internalId() == 0) {
    const auto& section = sections_[size_t(index.row())];
    QStringList lines{section.title};
    for (const auto& row : section.rows)
      lines << row.name + (row.value.isEmpty() ? QString() : ": " + row.value);
    return lines.join('\n');
  }
  const auto& row = sections_[size_t(index.internalId()) - 1].rows[size_t(index.row())];
  return row.value.isEmpty() ? row.name : row.name + ": " + row.value;
}

QVariant DetailsModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto& t = views::Theme::current();
  if (index.internalId() == 0) {
    if (role == Qt::DisplayRole && index.column() == 0) return sections_[size_t(index.row())].title;
    if (role == Qt::FontRole) return t.labelSemibold();
    return {};
  }
  const auto& row = sections_[size_t(index.internalId()) - 1].rows[size_t(index.row())];
  if (role == Qt::DisplayRole) return views::oneLine(index.column() == 0 ? row.name : row.value);
  if (role == Qt::ToolTipRole) return views::wrappedTip(row.tip.isEmpty() ? text(index) : row.tip);
  if (role == Qt::ForegroundRole && index.column() == 0 && !row.value.isEmpty()) return t.text2;
  if (role == Qt::AccessibleTextRole && index.column() == 0) return text(index);
  return {};
}

}  // namespace slotscope::app
