#include "views/address_data.h"

#include "core/error.h"

namespace slotscope::views {

QString addressModeName(AddressMode mode) {
  switch (mode) {
    case AddressMode::access:
      return QStringLiteral("Accesses");
    case AddressMode::factors:
      return QStringLiteral("Factors");
    case AddressMode::digits:
      return QStringLiteral("Digits");
    case AddressMode::mass:
      return QStringLiteral("Mass");
  }
  return {};
}

AddressPicture AddressSource::make(const AddressJob& job) {
  AddressPicture p;
  p.mode = job.mode, p.write = job.write, p.decoded = job.decoded, p.token = job.token;
  const std::lock_guard lock(mutex_);
  try {
    if (head_ != job.head || !addresses_) {
      head_ = nullptr;
      if (!job.run->trace) throw Error({.item = "addresses", .found = "there is no trace behind this picture"});
      addresses_ = analysis::load_addresses(*job.run->trace, job.run->run, job.head->layer, job.head->head, job.progress.get(), job.head);
      if (addresses_) head_ = job.head;
    }
    p.addresses = addresses_;
    p.cancelled = !addresses_;
    if (p.cancelled) return p;
    const analysis::Addresses& a = *addresses_;
    // RAM-Net without its reads: half of each of these pictures would be missing without a word.
    if (a.rule.known && !a.own_reads && job.mode != AddressMode::mass)
      throw Error({.item = "addresses", .found = a.no_overlap});
    switch (job.mode) {
      case AddressMode::access:
        if (a.write->every_slot) throw Error({.item = "addresses", .found = analysis::overlap_constant(*a.write)});
        p.access = analysis::access_grid(a, job.slots, job.tokens, job.rows, job.columns, job.decoded, job.progress.get());
        break;
      case AddressMode::factors:
        p.factors = analysis::marginal_grid(a, job.write, job.tokens.first, job.tokens.second, job.columns, job.progress.get());
        break;
      case AddressMode::digits:
        p.row = analysis::row_of(*a.write, job.token);
        for (const bool write : {false, true})
          if (p.row >= 0) {
            p.marginal[write] = analysis::factor_marginals(a, p.row, write);
            p.kept[write] = analysis::kept_mass(a, p.row, write);
          }
        if (!a.code.known()) analysis::factor_marginals(a, 0, true);  // says why not
        break;
      case AddressMode::mass:
        p.row = analysis::row_of(*a.write, job.token);
        p.mass = analysis::slot_mass(*job.run->trace, job.run->run, a, job.token);
        if (p.mass.mass.empty()) throw Error({.item = "mass", .found = p.mass.why});
        break;
    }
  } catch (const Error& e) {
    const auto& parts = e.parts();
    p.failed = QString::fromStdString(parts.found.empty() ? std::string(e.what()) : parts.found);
    if (!parts.advice.empty()) p.failed += QStringLiteral(". ") + QString::fromStdString(parts.advice);
    if (!p.failed.isEmpty()) p.failed[0] = p.failed[0].toUpper();
    return p;
  }
  p.cancelled = job.progress && job.progress->cancel_requested();
  return p;
}

}  // namespace slotscope::views
