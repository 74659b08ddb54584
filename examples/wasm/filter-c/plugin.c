/* A plugin of Tidewheel that drops alerts that come too late to be of use: after a server was down, or a topic paused. */
#include "../../../plugins/guest/c/tidewheel.h"

enum { CODE_LATE = 1, CODE_BATCH = 2 };
enum { MOST = 1024 }; /* records of a batch; the host sends batch_max, 256 unless it is raised */

static const tw_i64 LATEST_MS = 5 * 60 * 1000;
static tw_place severity[MOST];

static tw_verdict decide(tw_batch *b, const tw_record *r) {
	/* The host looks the member up once for the whole batch, when the first record is asked about. */
	if (r->i == 0 && (b->count > MOST || tw_json_get(b, "/severity", 9, severity) < 0))
		return tw_fail(b, CODE_BATCH, "the severities could not be read");
	if (b->now_ms - r->entry->due_ms <= LATEST_MS || r->entry->due_ms == 0) return tw_keep();
	return tw_equal(tw_at(b, severity[r->i]), "\"critical\"") ? tw_keep() : tw_drop(CODE_LATE);
}
TW_FILTER(decide)
