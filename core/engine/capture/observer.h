// What a mixer tells about itself while it runs. A mixer asks wants() before it computes anything for the
// observer alone.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "core/engine/capture/field.h"

namespace slotscope::engine {

// Sparse route of one segment: index int32 [B,T,H_r,K], distinct slots in rank order (-1: no slot); weight r
// [B,T,H_r,K].
struct Route {
  at::Tensor index, weight;
};

// The default observer wants nothing and changes nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual bool wants(Field, int /*layer*/) const { return false; }
  // A field of this segment, [B,T,...] as in core/fields.h; read_weight is [B,R,H,M] for the R rows of
  // read_rows().
  virtual void tell(Field, int /*layer*/, const at::Tensor&) {}
  // The one editable point of a route, before decay and write strength are made from it.
  virtual Route edit_route(int /*layer*/, Route route) { return route; }
  // The route that is used, with the gap at the router's own cut [B,T,H_r] (NaN without a cut).
  virtual void tell_route(int /*layer*/, const Route&, const at::Tensor& /*gap*/) {}
  // Rows of the present segment whose read_weight is wanted, ascending.
  virtual const std::vector<int64_t>& read_rows() const {
    static const std::vector<int64_t> none;
    return none;
  }
};

}  // namespace slotscope::engine
