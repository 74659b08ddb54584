/* A C plugin with an allocator of its own, and little room for output. */
#define TW_OWN_ALLOC
#include "../tidewheel.h"
static tw_u64 arena[8192], room[64];
TW_EXPORT("tw_alloc") tw_u32 tw_alloc(tw_u32 size) {
	tw_output_from = (tw_u32)room, tw_output_to = (tw_u32)(room + 64);
	return size <= sizeof arena ? (tw_u32)arena : 0;
}
static tw_verdict decide(tw_batch *b, const tw_record *r) { tw_message m = tw_same(r); return tw_replace_by(b, &m); }
TW_TRANSFORM(decide)
