/* The C plugin of the tests: it does what the first byte of a body says. */
#include "../tidewheel.h"

static tw_verdict decide(tw_batch *b, const tw_record *r) {
	if (r->body.len == 0) return tw_keep();
	switch (r->body.ptr[0]) {
	case '!': __builtin_trap();
	case 's': for (;;) __asm__ volatile("");
	case 'd': return tw_drop(7);
	}
	return tw_keep();
}
TW_FILTER(decide)

/* publish keeps what is paid: one call of the host for the whole batch. */
static tw_place paid[1024];
static tw_verdict judge(tw_batch *b, const tw_record *r) {
	if (r->i == 0 && (b->count > 1024 || tw_json_get(b, "/paid", 5, paid) < 0)) __builtin_trap();
	return tw_equal(tw_at(b, paid[r->i]), "true") ? tw_keep() : tw_drop(1);
}
TW_PUBLISH(judge)
