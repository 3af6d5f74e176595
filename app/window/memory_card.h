// What the routing-slot card shows of an opened checkpoint.
#pragma once

#include "app/window/open_checkpoint.h"
#include "views/memory_card_view.h"

namespace slotscope::app {

// Layers that are alike become one row. No rows when the checkpoint cannot be run.
views::MemoryCardData memoryCard(const OpenCheckpoint& open);

}  // namespace slotscope::app
