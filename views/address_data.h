// What the address views show, made in a worker (design: section 12; spec: ramnet 1.2 to 1.6, 6.5). No widgets.
#pragma once

#include <QString>
#include <memory>
#include <mutex>
#include <vector>

#include "core/analysis/address_fields.h"
#include "views/heatmap_geometry.h"
#include "views/view.h"

namespace slotscope::views {

enum class AddressMode { access, factors, digits, mass };
constexpr int kAddressModes = 4;
QString addressModeName(AddressMode mode);

struct AddressJob {
  std::shared_ptr<const RunData> run;
  std::shared_ptr<const analysis::HeadData> head;
  AddressMode mode = AddressMode::access;
  bool write = true;     // factors: of the write address, else of the read address
  bool decoded = false;  // access: CAPE undone
  CellRange tokens{0, 1}, slots{0, 1};
  int64_t token = 0;     // digits, mass
  int columns = 800, rows = 500;
  std::shared_ptr<Progress> progress;
};

struct AddressPicture {
  std::shared_ptr<const analysis::Addresses> addresses;
  AddressMode mode = AddressMode::access;
  bool write = true, decoded = false;
  QString failed;  // why there is nothing
  analysis::AccessGrid access;
  analysis::SlotGrid factors;
  int64_t token = -1, row = -1;          // digits, mass: the token, and its row (-1: not captured)
  std::vector<double> marginal[2];       // of the token: read, write
  double kept[2] = {0, 0};
  analysis::SlotMass mass;
  bool cancelled = false;
};

// The addresses of the last head, kept for its next picture. Safe from any thread.
class AddressSource {
 public:
  AddressPicture make(const AddressJob& job);

 private:
  std::mutex mutex_;
  std::shared_ptr<const analysis::HeadData> head_;
  std::shared_ptr<const analysis::Addresses> addresses_;
};

}  // namespace slotscope::views
