// Addresses of one head (spec: ramnet 1.2 to 1.7): which slots each token writes and reads, as sparse lists. RAM-Net has an address
// for each of the two; other routed memories have one route, which is both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/head_data.h"
#include "core/analysis/memory.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

// Slots as codes of a product code: slot = sum_u code_u d_p^u (factor 0 least significant), moved by CAPE.
struct ProductCode {
  int factors = 0, codes = 0;  // U, d_p; 0: the slots have no codes
  bool factor0_least = true;   // else factor 0 is the most significant digit
  int64_t shift = 0;           // CAPE: slots per position, modulo M (+1 or -1; 0: NoPE)
  bool known() const { return factors > 0; }
  // Codes of the U factors of a slot as it is (of a decoded slot, or the digits of a slot of the memory).
  std::vector<int> digits(int64_t slot) const;
  // The slot of the memory that the decoded slot is at `position`, and back. `slots`: M.
  int64_t moved(int64_t decoded, int64_t position, int64_t slots) const;
  int64_t decoded(int64_t slot, int64_t position, int64_t slots) const;
};
// "37", or with codes "37 (1·1·2·0·0)": digits from factor 0 on.
std::string slot_name(const ProductCode&, int64_t slot);

// How the memory follows from its addresses (spec: ramnet 1.5, 1.6).
struct AddressRule {
  bool known = false;  // false: not RAM-Net
  bool pdma = false, cumulative = false, mass_aware = false, renormalised = false;
  double pdma_gamma = 0, eps = 0;
};

struct Addresses {
  std::shared_ptr<const HeadRoutes> write;   // w, strengths and log decays; rows as there
  std::shared_ptr<const SlotWrites> writes;  // the same by slot
  bool own_reads = false;                    // RAM-Net: read addresses of their own; else a route is both
  int read_k = 0;
  std::vector<uint32_t> read_slot;    // [rows, read_k]
  std::vector<double> read_weight;    // [rows, read_k] r
  std::vector<double> read_p;         // [rows, read_k] p of A[t,s]; empty: r itself
  std::vector<double> gamma;          // [rows]; empty: not captured or not used
  std::vector<int64_t> position;      // [rows]
  ProductCode code;
  AddressRule rule;
  std::string no_overlap;  // why pairs of tokens cannot be compared; "" where they can
  std::string no_induced;  // why A[t,s] is not known for every row; "" where it is

  int64_t rows() const { return write->rows; }
  int64_t tokens() const { return write->tokens; }
  int slots() const { return write->slots; }
  int reads() const { return own_reads ? read_k : write->top_k; }
  uint32_t read_slot_at(int64_t row, int k) const {
    return own_reads ? read_slot[size_t(row * read_k + k)] : write->slot_at(row, k);
  }
  double read_weight_at(int64_t row, int k) const {
    return own_reads ? read_weight[size_t(row * read_k + k)] : write->weight_at(row, k);
  }
  double read_p_at(int64_t row, int k) const {
    return read_p.empty() ? read_weight_at(row, k) : read_p[size_t(row * read_k + k)];
  }
};

// The addresses of one head. Throws Error when the layer has no routes or the file is damaged; null when progress asks to stop.
// `head`: its data where they are loaded already.
std::shared_ptr<const Addresses> load_addresses(const trace::Trace&, int run, int layer, int head, Progress* = nullptr,
                                                std::shared_ptr<const HeadData> data = nullptr);
// From arrays, for callers without a trace. `write` with index and weight; gates are replayed where the rule is known. Throws
// Error when sizes do not fit or a read slot is not there.
std::shared_ptr<const Addresses> make_addresses(Addresses);

// What if the addresses were others: the layer's inputs stay, the memory is played again.
struct AddressDials {
  int top_k = 0;                 // 0: as captured
  double temperature = 1;        // softmax(logits / temperature) of reads and writes
  std::optional<int64_t> shift;  // CAPE's slots per position; none: as captured
  bool captured() const { return top_k == 0 && temperature == 1 && !shift; }
  bool operator==(const AddressDials&) const = default;
};
// Why a dial cannot be answered exactly from what was captured; "" where it can.
std::string why_not(const Addresses&, const AddressDials&);
// The addresses under the dials; the same object when they are as captured. Throws Error with why_not. Null when cancelled.
std::shared_ptr<const Addresses> with_dials(std::shared_ptr<const Addresses>, const AddressDials&, Progress* = nullptr);

// Mass m (PDMA: z) of every slot after token t, replayed from w and gamma; empty with the reason in `why` when it cannot be.
std::vector<double> mass_after(const Addresses&, int64_t t, std::string& why);

}  // namespace slotscope::analysis
